"""Whether the native wheel is here, fits this version, and what it is used for."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from dataclasses import dataclass
from typing import Final

__all__ = ["ABI_VERSION", "Availability", "availability"]

ABI_VERSION: Final = 2  # of the contract that this side speaks
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
    except ImportError:
        return Availability(False, "the Python engine is in use (interlock-native is not installed)")
    except AttributeError:
        return Availability(False, "the Python engine is in use (the installed interlock-native is not ours)")
    ours = importlib.metadata.version("interlock")
    if abi != ABI_VERSION or version != ours:
        found = f"interlock-native {version}, ABI {abi}; wanted {ours}, ABI {ABI_VERSION}"
        return Availability(False, f"the Python engine is in use ({found})")
    return Availability(True, f"the native engine is in use (interlock-native {version}, ABI {abi})")
