"""Whether the native wheel is here, fits this version, and what it is used for."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Final

from interlock.base.version import VERSION

__all__ = ["ABI_VERSION", "PLAN_VERSION", "Availability", "availability"]

ABI_VERSION: Final = 4  # of the contract that this side speaks
PLAN_VERSION: Final = 4  # of the plans that this side writes
_OFF: Final = "INTERLOCK_NATIVE"


@dataclass(frozen=True)
class Availability:
    """`installed`: the wheel fits and was not turned off. `sentence` says which engine evaluates, and why."""

    installed: bool
    sentence: str


def availability() -> Availability:
    """Look for the native wheel; its absence, or a wheel that does not fit, is a sentence and never an error."""
    if os.environ.get(_OFF) == "0":
        return Availability(False, f"the Python engine is in use ({_OFF}=0)")
    try:
        native = importlib.import_module("interlock_native")
        abi, version = native.abi_version(), native.__version__
        plans = native.plan_version() if hasattr(native, "plan_version") else 1  # the first did not tell
    except ImportError:
        return Availability(False, "the Python engine is in use (interlock-native is not installed)")
    except AttributeError:
        return Availability(False, "the Python engine is in use (the installed interlock-native is not ours)")
    if (abi, plans, version) != (ABI_VERSION, PLAN_VERSION, VERSION):
        found = f"interlock-native {version}, ABI {abi}, plans {plans}"
        wanted = f"wanted {VERSION}, ABI {ABI_VERSION}, plans {PLAN_VERSION}: build or install it anew"
        return Availability(False, f"the Python engine is in use ({found}; {wanted})")
    return Availability(True, f"the native engine is in use (interlock-native {version}, ABI {abi})")
