"""Settings of the whole suite: property tests draw the same examples on every run, so that a red run can be repeated.

Set INTERLOCK_EXPLORE=1 to draw new ones: a run by hand that looks for what nobody has seen yet.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("explore" if os.environ.get("INTERLOCK_EXPLORE") == "1" else "repeatable")
