"""A person calls an objection a false positive: one bit of a catalog of false positives, for one receipt, once.

What may be said of: a receipt of this node's chain, on which a rule of a community pack blocked or asked. Not of a rule
that masks, and not of what came before consent. The receipt stays here; what is reported is its catalog's place: the
rule's, and that of the indicators it met, as `observe` kept them beside the call's id.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from interlock.base.clock import rfc3339
from interlock.base.errors import BadInput, InterlockError
from interlock.base.files import read_bounded
from interlock.commons.consent import Consent, NoConsent, demand_consent
from interlock.commons.indicators import FALSE_POSITIVES
from interlock.commons.live import store_file
from interlock.commons.pack import MAX_PACK, parse_pack
from interlock.dap.task import Task, TaskRefused
from interlock.engine.receipts import Receipt
from interlock.node.roles.observe import MARK, KeptCatalog
from interlock.node.roles.report import find_kept, kept_for, terms_of
from interlock.node.storage.node import NodeStore, Word

__all__ = ["JOIN", "demand_objection", "say_false_positive", "spoken"]

JOIN: Final = "join a task that counts them, and consent to it: interlock mesh report init"
_OBJECTIONS: Final = ("BLOCK", "ESCALATE")


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


def say_false_positive(
    home: Path, store: NodeStore, tasks: Sequence[Task], receipt: Receipt, now_us: int
) -> list[Word]:
    """Count a receipt as a false positive, in the running epochs of the tasks that have a place for it.

    Each place feeds one task: of those that have it, the one that was consented to first. Raises: BadInput, for a
    receipt that may not be said of, was, or has no place in any task; NoConsent, TaskRefused.
    """
    rule, where = demand_objection(receipt, home), f"receipt {receipt.seq}"
    left = {f"rule:{rule}", *store.objection(receipt.call_id, receipt.phase)}
    words: list[Word] = []
    for kept in _takers(home, tasks, receipt, left, now_us):
        mine = left & kept.catalog.index.keys()
        left -= mine
        start = kept.epoch_of(now_us)
        places = kept.named(kept.catalog.index[name] for name in mine)
        words += [Word(kept.catalog.task, kept.catalog.digest, start, start + kept.epoch_us, places)] if mine else []
    if any(word.start in store.reported(word.task) for word in words):
        raise BadInput("comes after this epoch's report", where=where, fix="say it once the next epoch has begun")
    if store.was_told(receipt.seal):
        raise BadInput("was called a false positive before", where=where)
    if not store.tell_false_positive(receipt.seal, words, now_us):
        raise BadInput("feeds another task in this epoch", where=where, fix="say it once the next epoch has begun")
    return words


def spoken(word: Word) -> tuple[str, ...]:
    """The places of a word as a person knows them, in the catalog's order."""
    return tuple(name.removeprefix(MARK) for _, name in sorted(word.places.items()))


def _takers(
    home: Path, tasks: Sequence[Task], receipt: Receipt, names: Collection[str], now_us: int
) -> list[KeptCatalog]:
    """The catalogs that a word on a receipt may go to, that which was consented to first in front.

    Raises: BadInput, where none has a place for it; and what stands against those that have.
    """
    counting = [k for k in (find_kept(home, task) for task in tasks) if k and k.catalog.counts == FALSE_POSITIVES]
    named = sorted(k.catalog.task for k in counting if names & k.catalog.index.keys())
    if counting and not named:
        known, rule = ", ".join(sorted(k.catalog.task for k in counting)), receipt.rule
        told = f"is of rule {rule}, and no task that counts false positives here has a place for it ({known})"
        raise BadInput(told, where=f"receipt {receipt.seq}")
    takers: list[tuple[int, str, KeptCatalog]] = []
    refused: list[InterlockError] = []
    for task in tasks:
        try:
            kept = kept_for(home, task)
            if kept.catalog.task in named:
                consent = demand_consent(home, terms_of(home, task, kept.catalog))
                _demand_time(kept, consent, receipt, now_us)
                takers.append((consent.at, kept.catalog.task, kept))
        except (BadInput, NoConsent, TaskRefused) as e:
            refused.append(e)
    if not takers:
        raise refused[0] if refused else BadInput("reports no false positives", where=str(home), fix=JOIN)
    return [kept for _, _, kept in sorted(takers, key=lambda taker: taker[:2])]


def _demand_time(kept: KeptCatalog, consent: Consent, receipt: Receipt, now_us: int) -> None:
    """Raises: BadInput, for a task that is not open yet, and a receipt of before the consent."""
    if kept.epoch_of(now_us) < kept.catalog.opens_at:
        opens = rfc3339(-(-kept.catalog.opens_at // kept.epoch_us) * kept.epoch_us)
        told = f"is not open yet: its first epoch begins at {opens}"
        raise BadInput(told, where=f"task {kept.catalog.task}", fix="say it then")
    if receipt.ts_us < consent.at:
        raise BadInput("is of before the consent, which never reaches back", where=f"receipt {receipt.seq}")
