"""`interlock mesh gossip`: compare what several places show of a log, and keep evidence of two histories."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from interlock.base.clock import SystemClock
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, BadInput, InterlockError
from interlock.base.fetch import Fetcher, NotFound, http_client
from interlock.base.files import read_bounded
from interlock.commons.pins import read_pins
from interlock.node.cli.mesh_log import place_of, policy_in
from interlock.node.config import mesh_config, settings_of
from interlock.transparency.checkpoint import origin_hash
from interlock.transparency.follow import EVIDENCE_FORMAT, MAX_EVIDENCE, LogView, parse_evidence, write_evidence
from interlock.transparency.gossip import AGREES, SPLIT, Compared, Sighting, compared, note_in
from interlock.transparency.note import MAX_NOTE, parse_note
from interlock.transparency.policy import TlogPolicy, UnknownLog
from interlock.transparency.tiles import CHECKPOINT

__all__ = ["gossip"]

_OWN = "this node"
_HEAD = 100  # bytes of a file, among which is its format
_Row = dict[str, object]


@dataclass(frozen=True)
class _Origin:
    """One log: what was seen of it, and how that compares."""

    name: str
    sightings: Sequence[Sighting]
    compared: Compared

    def rows(self) -> Iterator[_Row]:
        for sighting in self.sightings:
            checkpoint = sighting.checked.checkpoint
            yield {
                "place": sighting.place,
                "origin": self.name,
                "size": checkpoint.size,
                "root": checkpoint.root.hex(),
                "witnesses": sorted(sighting.checked.witnesses),
                "result": self.compared.results[sighting.place],
            }


def gossip(args: argparse.Namespace) -> int:
    """Compare, and say what came out; exit code 1 where two histories were signed or nothing could be compared."""
    home = mesh_config(settings_of(args.config), args.home).home
    policy = policy_in(args.policy) if args.policy else read_pins(home).policy
    view = LogView(home / "log", policy, SystemClock())
    names = list(dict.fromkeys(log.key.name for log in policy.logs))
    if args.show:
        return _show(view, names, as_json=args.json)
    trouble: list[_Row] = []
    with http_client() as client:
        found = list(_seen(policy, view, names, args.place, trouble, client))
        served = [p for p in dict.fromkeys((*args.place, *(log.url for log in policy.logs))) if _serves(p)]
        origins = [_compared(name, found, [place_of(p, client) for p in served]) for name in names]
    kept = [
        str(
            write_evidence(
                Path(args.evidence) if args.evidence else _evidence(home), o.compared.evidence, SystemClock()
            )
        )
        for o in origins
        if o.compared.evidence is not None
    ]
    return _told(args, [*(row for o in origins for row in o.rows()), *trouble], kept)


def _show(view: LogView, names: Sequence[str], *, as_json: bool) -> int:
    notes = [note.decode("utf-8") for note in map(view.note, names) if note is not None]
    if not notes:
        raise BadInput("has seen no checkpoint yet", where="this node", fix="run interlock mesh update first")
    if len(notes) > 1 and not as_json:
        raise BadInput("has seen several logs", where="this node", fix="give --json, or a --policy with one of them")
    print(json.dumps({"notes": notes}) if as_json else notes[0], end="\n" if as_json else "")
    return EXIT_OK


def _seen(
    policy: TlogPolicy,
    view: LogView,
    names: Sequence[str],
    places: Sequence[str],
    trouble: list[_Row],
    client: httpx.Client,
) -> Iterator[Sighting]:
    """What each place shows of each log of the policy; a place that shows nothing is told in `trouble`."""
    for name in names:
        note = view.note(name)
        if note is not None:
            yield Sighting(_OWN, policy.opened(parse_note(note)))
    peers = [*(log.url for log in policy.logs), *(w.url for w in policy.witnesses.values())]
    for place in dict.fromkeys(p for p in (*places, *peers) if p):
        shown = 0
        try:
            for data in _notes(place, names, client):
                shown += 1
                if EVIDENCE_FORMAT.encode() in data[:_HEAD]:
                    trouble.append(_proven(place, data, policy))
                    continue
                yield Sighting(place, policy.opened(note_in(data, where=place)))
            if not shown:
                raise NotFound("shows no checkpoint of a log of the policy", where=place)
        except UnknownLog as e:
            trouble.append({"place": place, "result": "another log", "what": str(e)})
        except InterlockError as e:
            trouble.append({"place": place, "result": "failed", "what": str(e)})


def _proven(place: str, data: bytes, policy: TlogPolicy) -> _Row:
    """What evidence that somebody handed over shows, by the policy's keys alone. Raises: as `Evidence.verify`."""
    evidence = parse_evidence(data, where=place)
    keys = [log.key for log in policy.logs if log.key.name == evidence.origin]
    if not keys:
        raise UnknownLog("is evidence of a log that the policy does not name", where=evidence.origin)
    evidence.verify(*keys)
    return {
        "place": place,
        "origin": evidence.origin,
        "result": SPLIT,
        "what": "proves that the log signed two histories",
    }


def _notes(place: str, names: Sequence[str], client: httpx.Client) -> Iterator[bytes]:
    """The checkpoints of a place: of a file (or evidence), a log, a mirror; of a witness, which has one of each log."""
    if "://" not in place and not Path(place).is_dir():
        yield read_bounded(Path(place), MAX_EVIDENCE)
        return
    fetcher = place_of(place, client)
    for path in (CHECKPOINT, *(f"{origin_hash(n)}/{CHECKPOINT}" for n in names)):
        try:
            yield fetcher.fetch(path, max_length=MAX_NOTE)
        except NotFound:
            continue
        if path == CHECKPOINT:
            return


def _serves(place: str) -> bool:
    return "://" in place or (place != "" and Path(place).is_dir())


def _evidence(home: Path) -> Path:
    """The folder that `mesh doctor` looks into, where this is a node; else the one that we are in."""
    return home / "evidence" if home.is_dir() else Path()


def _compared(name: str, found: Sequence[Sighting], sources: Sequence[Fetcher]) -> _Origin:
    mine = [s for s in found if s.checked.checkpoint.origin == name]
    return _Origin(name, mine, compared(mine, sources))


def _told(args: argparse.Namespace, rows: Sequence[_Row], evidence: Sequence[str]) -> int:
    results = [str(row["result"]) for row in rows if "size" in row or row["result"] == SPLIT]
    good = len(results) >= 2 and set(results) == {AGREES}
    if args.json:
        print(json.dumps({"ok": good, "places": list(rows), "evidence": list(evidence)}, indent=1))
        return EXIT_OK if good else EXIT_REFUSED
    for row in rows:
        told = f"size {row['size']}, root {str(row['root'])[:16]}" if "size" in row else row["what"]
        print(f"{row['result']:<12} {row['place']}: {told}")
    for file in evidence:
        print(f"a log has signed two histories: trust nothing new of it, and send its witnesses {file}")
    if SPLIT not in results and not good:
        print("nothing was shown: name more places that show this log, one of them with its tiles")
    return EXIT_OK if good else EXIT_REFUSED
