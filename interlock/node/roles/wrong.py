"""A person says that an objection was wrong: one bit of a catalog of false positives, for one receipt, once.

What may be said of: a receipt of this node's chain, on which a rule of a community pack blocked or asked. Not of a rule
that masks, and not of what came before consent. The receipt stays here; what is reported is its catalog's place: the
rule's, and that of the indicators it met, as `observe` kept them beside the call's id.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.errors import BadInput
from interlock.base.files import read_bounded
from interlock.commons.consent import Consent, demand_consent
from interlock.commons.indicators import FALSE_POSITIVES
from interlock.commons.live import store_file
from interlock.commons.pack import MAX_PACK, parse_pack
from interlock.dap.task import Task
from interlock.engine.receipts import Receipt
from interlock.node.roles.observe import KeptCatalog
from interlock.node.roles.report import kept_for, terms_of
from interlock.node.storage.node import NodeStore

__all__ = ["Said", "demand_objection", "say_wrong"]

_OBJECTIONS: Final = ("BLOCK", "ESCALATE")


@dataclass(frozen=True)
class Said:
    """What a word on a receipt set: the places by name, in the epoch that began at `epoch` (microseconds)."""

    task: str
    epoch: int
    places: tuple[str, ...]


def demand_objection(receipt: Receipt, home: Path) -> str:
    """The rule of a community pack that blocked or asked, by its receipt. Raises: BadInput, where it is no such one."""
    where = f"receipt {receipt.seq}"
    if (receipt.policy_verdict or receipt.verdict) not in _OBJECTIONS:
        raise BadInput("is of what was neither blocked nor asked about", where=where)
    if receipt.pack_digest is None or receipt.rule is None:
        raise BadInput("is of no community rule", where=where, fix="change the policy that has the rule")
    path = store_file(home, receipt.pack_digest)
    if not path.exists():
        raise BadInput("is of a pack that this node holds no more", where=where)
    pack = parse_pack(read_bounded(path, MAX_PACK), where=str(path))
    rule = next((doc for doc in pack.rules if doc.id == receipt.rule), None)
    if pack.digest != receipt.pack_digest or rule is None:
        raise BadInput("names a rule that its pack does not have", where=where)
    if rule.mask is not None:
        raise BadInput("is of a rule that masks, and is never counted", where=where)
    return rule.id


def say_wrong(home: Path, store: NodeStore, task: Task, receipt: Receipt, now_us: int) -> Said:
    """Count a receipt as a false positive, in the running epoch of a task that counts those.

    Raises: BadInput, for a receipt that may not be said of, or was; NoConsent, TaskRefused.
    """
    kept = kept_for(home, task)
    if kept.catalog.counts != FALSE_POSITIVES:
        raise BadInput("counts no false positives", where=f"task {kept.catalog.task}")
    consent = demand_consent(home, terms_of(home, task, kept.catalog))
    rule = demand_objection(receipt, home)
    epoch = _epoch(kept, consent, receipt, now_us)
    places = _places(kept, store, receipt, rule)
    where, name = f"receipt {receipt.seq}", kept.catalog.task
    if epoch in store.reported(name):
        raise BadInput("comes after this epoch's report", where=where, fix="say it once the next epoch has begun")
    if store.was_told(receipt.seal):
        raise BadInput("was called wrong before", where=where)
    span = epoch, epoch + kept.epoch_us
    if not store.tell_wrong(receipt.seal, name, kept.catalog.digest, span, kept.named(places), now_us):
        raise BadInput("feeds another task in this epoch", where=where, fix="say it once the next epoch has begun")
    return Said(name, epoch, tuple(kept.catalog.places[place] for place in sorted(places)))


def _epoch(kept: KeptCatalog, consent: Consent, receipt: Receipt, now_us: int) -> int:
    """The start of the running epoch. Raises: BadInput."""
    epoch = kept.epoch_of(now_us)
    if epoch < kept.catalog.opens_at:
        raise BadInput("is not open yet", where=f"task {kept.catalog.task}", fix="wait for its next epoch")
    if receipt.ts_us < consent.at:
        raise BadInput("is of before the consent, which never reaches back", where=f"receipt {receipt.seq}")
    return epoch


def _places(kept: KeptCatalog, store: NodeStore, receipt: Receipt, rule: str) -> frozenset[int]:
    """Places of the catalog. Raises: BadInput, where it has none for this receipt."""
    names = {f"rule:{rule}", *store.objection(receipt.call_id, receipt.phase)}
    found = frozenset(kept.catalog.index[name] for name in names if name in kept.catalog.index)
    if not found:
        told = f"the catalog of {kept.catalog.task} has no place for rule {rule}"
        raise BadInput(told, where=f"receipt {receipt.seq}")
    return found
