"""An ordinary checkout, for proofs on the text alone: no links, no secrets, the usual programs."""

from __future__ import annotations

from interlock.commons.harness import TREE
from interlock.commons.harness import OrdinaryCheckout as Ordinary

__all__ = ["TREE", "Ordinary"]
