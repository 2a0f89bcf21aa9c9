"""Overlays: what a project adds to its operator's policy, and can only add.

An overlay is a document whose rules come after all others. It is monotone: with it, no event is judged more mildly than
without it (BLOCK over ESCALATE over MODIFY over ALLOW), and what other rules rewrote stays rewritten. So it has no
setting (it raises no limit, proves nothing harmless, quarantines nothing), extends nothing, replaces no rule, and
modifies only by masks and removals: a detector finds what is masked or taken away, and no text is its author's own.
Packs of the mesh are held to the same: they have no field for anything else, and `demand_masks` holds their masks.

An overlay is trusted by its content: a person reads it and records its SHA-256; changed by one byte, it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from interlock.engine.policy.document import Document, RuleDoc
from interlock.engine.policy.problems import BadPolicy
from interlock.engine.policy.settings import Settings

__all__ = ["demand_masks", "demand_monotone"]

_MASKS_WITH = (bool, int)  # what a mask's parameters may be: switches and sizes, never a text to write


def demand_monotone(document: Document, where: str) -> None:
    """Raises: BadPolicy, where an overlay says what could weaken the policy that it is laid over."""
    if document.extends:
        raise BadPolicy("extends another policy", where=f"{where}: extends", fix="an overlay stands alone")
    if document.settings != Settings():
        raise BadPolicy("has settings, which only the operator's own document has", where=where, fix="leave them out")
    demand_masks(document.rules, where)


def demand_masks(rules: Iterable[RuleDoc], where: str) -> None:
    """Raises: BadPolicy, where a rule of an overlay or pack writes what its author chose in place of what it masks."""
    for rule in rules:
        params = {} if rule.mask is None else rule.mask.params
        for key, value in params.items():
            if not isinstance(value, _MASKS_WITH):
                raise BadPolicy(
                    "masks with a value of its author's",
                    where=f"{where}: rule {rule.id}: mask.params.{key}",
                    fix="mask only what a detector finds",
                )
