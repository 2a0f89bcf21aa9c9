"""What a new version of a pack changes on this node, in words, before it is taken.

By rules: which are new, gone, or mean something else, what each may do here, and what the operator's grants cover
afterwards. By verdicts: which of both versions' own examples end differently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from interlock.commons.grants import Grants
from interlock.commons.resolve import Resolved, Standing, Subscribed, resolved
from interlock.commons.withdrawn import Withdrawn
from interlock.engine.decision import Verdict
from interlock.engine.policy.differ import difference
from interlock.engine.policy.document import RuleDoc

__all__ = ["Change", "Changes", "acting", "changes_of"]

_FIELDS: Final = ("phase", "when", "verdict", "reason", "policy_id", "attributed_to", "locked", "mask", "shadow")
_DOES: Final = {
    Verdict.BLOCK: "blocks",
    Verdict.MODIFY: "masks",
    Verdict.ESCALATE: "asks",
    Verdict.ALLOW: "shadow only",
}
MAX_EXAMPLES: Final = 500  # events that both policies are asked about
_SIGNS: Final = {"added": "+", "removed": "-", "changed": "~"}


@dataclass(frozen=True, slots=True)
class Change:
    """One rule that is added, removed or changed; `told` says it in words."""

    rule: str
    kind: str
    told: str


@dataclass(frozen=True, slots=True)
class Changes:
    """What becomes of a subscription: `before` is the version in force (0: none) and `after` the new one.

    `verdicts` are (before, after, how many) of the examples that end differently.
    """

    name: str
    before: int
    after: int
    rules: tuple[Change, ...]
    same: int
    granted: int
    verdicts: tuple[tuple[str, str, int], ...]

    def lines(self) -> Iterator[str]:
        """The change as text, a line each."""
        yield f"{self.name}: " + (f"version {self.before} -> {self.after}" if self.before else f"version {self.after}")
        for change in self.rules:
            yield f"  {_SIGNS[change.kind]} {change.rule}: {change.told}"
        if self.same:
            kept = f"; your grants cover {self.granted} of them as before" if self.granted else ""
            yield f"  = {_many(self.same, 'rule')} {'stays as it is' if self.same == 1 else 'stay as they are'}{kept}"
        for before, after, count in self.verdicts:
            yield f"  of the examples, {count} came to {before} and come{'s' if count == 1 else ''} to {after} now"


def acting(standing: Standing) -> str:
    """What a rule does here, and why no more where its author would have more."""
    does = _DOES[standing.acts]
    if standing.state == "superseded":
        return f"{does}, as granted in version {standing.version}"
    if standing.acts is standing.doc.verdict:
        return f"{does}, as granted" if standing.state == "granted" else does
    why = {
        "ungranted": "not granted",
        "beta": "a beta pack may only ask",
        "canary": "a canary pack only watches",
        "watched": "in its monitor window",
        "stepped-back": "stepped back",
    }.get(standing.state, "as its author wrote it")
    return f"{does} ({why}; its author {_DOES[standing.doc.verdict]})"


def changes_of(
    before: Subscribed | None,
    after: Subscribed,
    base: Sequence[RuleDoc],
    grants: Grants,
    withdrawn: Sequence[Withdrawn] = (),
) -> Changes:
    """What taking `after` changes. Raises: BadPolicy, BadState."""
    then = resolved(base, [] if before is None else [before], grants, withdrawn)
    now = resolved(base, [after], grants, withdrawn)
    old, new = _by_rule(then), _by_rule(now)
    held = {s.rule: s for s in now.standings if s.state == "superseded"}
    rules = [Change(name, "added", f"new, {acting(new[name])}") for name in new if name not in old]
    rules += [Change(name, "removed", _gone(held.get(name))) for name in old if name not in new]
    both = [name for name in new if name in old]
    changed = [name for name in both if new[name].semantic != old[name].semantic]
    rules += [Change(name, "changed", _changed(old[name], new[name], held.get(name))) for name in changed]
    same = [name for name in both if new[name].semantic == old[name].semantic]
    touched = [s.doc for by in (old, new) for name, s in by.items() if name not in set(same)]
    return Changes(
        name=f"{after.pack.name}@{after.ring}",
        before=0 if before is None else before.pack.version,
        after=after.pack.version,
        rules=tuple(rules),
        same=len(same),
        granted=sum(grants.covers(after.pack.name, new[name].semantic) for name in same),
        verdicts=() if before is None else _verdicts(then, now, touched),
    )


def _by_rule(of: Resolved) -> dict[str, Standing]:
    return {s.rule: s for s in of.standings if s.state != "superseded"}


def _gone(held: Standing | None) -> str:
    return "gone" if held is None else f"gone from the pack; yours {acting(held)}, until you take the grant back"


def _changed(old: Standing, new: Standing, held: Standing | None) -> str:
    fields = ", ".join(name for name in _FIELDS if _field(old.doc, name) != _field(new.doc, name))
    told = f"changed ({fields}), {acting(new)}"
    return told if held is None else f"{told}; beside it yours {acting(held)}, until you grant the new one"


def _field(doc: RuleDoc, name: str) -> object:
    if name == "mask":
        return None if doc.mask is None else doc.mask.plain
    found: object = getattr(doc, name)
    return found


def _verdicts(then: Resolved, now: Resolved, docs: Sequence[RuleDoc]) -> tuple[tuple[str, str, int], ...]:
    """How the examples of these rules end differently, each verdict before and after with its count."""
    examples = (e for doc in docs for e in (*doc.examples.fires, *doc.examples.passes))
    events = {(e.action, e.phase, e.principal, e.cwd, repr(e.args)): e for e in examples}
    found = difference(then.policy, now.policy, list(events.values())[:MAX_EXAMPLES])
    counted = Counter((c.before.name.lower(), c.after.name.lower()) for c in found.verdicts)
    return tuple((before, after, count) for (before, after), count in counted.items())


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
