"""A notice: what a node saw of a log, told to the one monitor that its operator named and agreed to.

    {"format": "interlock-notice", "v": 1, "origin": ORIGIN, "size": N, "root": HEX, "notes": [NOTE, ...]}

There is nothing in it of who tells it: no name, no pack, no version. `notes` is empty, but where there is something to
prove: of a node that was shown two histories they are the two notes, of one whose root the monitor contradicts the
note that it holds. A root without a note proves nothing, since anybody can say one; a note is signed by the log.

The monitor answers {"format": "interlock-notice-answer", "v": 1, "result": RESULT}:

    agrees   its own tree has that root          differs   it has another one; nothing is proven yet
    waits    its own tree is not that large      proven    the log has signed two histories; it keeps the evidence

What a node has to tell waits in its home: the newest notice, and the newest two histories. Of those that the monitor
had not read as far as, one is kept and told again until it is compared: else whoever shows a node another history would
only have to keep it longer than the true one, and each notice would be dropped for the next. Nothing else is queued.

    HOME/told/seen.json   HOME/told/split.json   HOME/told/ahead.json (what the monitor had not read as far as)
    HOME/told/said.json (what was told, and what the monitor answered)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from interlock.base import files
from interlock.base.canonical import NotCanonical, encode, known_object
from interlock.base.clock import MICROSECONDS
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.files import BadState, private_dir, read_bounded, stamped, typed, unstamped
from interlock.base.text import is_sha256
from interlock.commons.consent import Consent, Terms, read_consents
from interlock.commons.pack import sha256_hex
from interlock.transparency.checkpoint import Checkpoint, parse_checkpoint
from interlock.transparency.follow import SplitView
from interlock.transparency.merkle import BadProof
from interlock.transparency.note import MAX_NOTE, encode_note, parse_note
from interlock.transparency.policy import Checked

__all__ = [
    "AGREES",
    "DIFFERS",
    "MAX_ANSWER",
    "MAX_NOTICE",
    "PROVEN",
    "PURPOSE",
    "WAITS",
    "Notice",
    "Said",
    "agreed",
    "answer_of",
    "forget_told",
    "keep_notice",
    "parse_answer",
    "parse_notice",
    "read_said",
    "tell",
    "terms_of",
    "untold",
]

AGREES: Final = "agrees"
WAITS: Final = "waits"
DIFFERS: Final = "differs"
PROVEN: Final = "proven"
MAX_NOTICE: Final = 4 * MAX_NOTE + 8192  # bytes; two notes as JSON strings, twice as long at the most
MAX_ANSWER: Final = 4096  # bytes
RETRY_US: Final = 60 * MICROSECONDS  # after one that could not be delivered
AHEAD_US: Final = 600 * MICROSECONDS  # after one that the monitor had not read as far as
PURPOSE: Final = "checkpoints"
_MOST_NOTES: Final = 2
_SIZE_LIMIT: Final = 1 << 53  # what JSON can say exactly
_FORMAT: Final = "interlock-notice"
_ANSWER: Final = "interlock-notice-answer"
_SAID: Final = "interlock-told"
_FOLDER: Final = "told"
_SEEN: Final = "seen.json"
_SPLIT: Final = "split.json"
_AHEAD: Final = "ahead.json"
_SAID_FILE: Final = "said.json"


@dataclass(frozen=True)
class Notice:
    """A tree of `size` entries with this root, as a log of that origin showed it; and notes that prove it.

    Raises on making: Malformed.
    """

    origin: str
    size: int
    root: bytes
    notes: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        try:
            Checkpoint(self.origin, self.size, self.root).demand_sound()
        except BadProof as e:
            raise Malformed(e.what) from None
        if self.size >= _SIZE_LIMIT or len(self.notes) > _MOST_NOTES:
            raise Malformed(f"a notice is of a tree below 2^53 entries, with {_MOST_NOTES} notes at the most")

    @classmethod
    def of(cls, *notes: bytes) -> Notice:
        """The notice of the last of these notes, all of them with it. Raises: Malformed."""
        seen = parse_checkpoint(parse_note(notes[-1]).text)
        return cls(seen.origin, seen.size, seen.root, notes)

    @property
    def bare(self) -> Notice:
        """The same without its notes."""
        return replace(self, notes=())

    @property
    def data(self) -> bytes:
        """As it is posted. The inverse of `parse_notice`."""
        body = {"origin": self.origin, "size": self.size, "root": self.root.hex()}
        return encode({"format": _FORMAT, "v": 1, **body, "notes": [n.decode("utf-8") for n in self.notes]})


def parse_notice(data: bytes, *, where: str = "notice") -> Notice:
    """Read a notice, in its one spelling; no signature is checked. Raises: Malformed."""
    try:
        body = known_object(data, _FORMAT, 1, most=MAX_NOTICE, where=where)
    except NotCanonical as e:
        raise Malformed(e.what, where=where) from None
    origin, size, root, notes = (body.pop(key, None) for key in ("origin", "size", "root", "notes"))
    if set(body) != {"format", "v"} or not isinstance(origin, str) or type(size) is not int or not is_sha256(root):
        raise Malformed("has not the fields origin, size, root and notes, each of its type", where=where)
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise Malformed("has no list of notes", where=where)
    return Notice(origin, size, bytes.fromhex(root), tuple(note.encode("utf-8") for note in notes))


def answer_of(result: str) -> bytes:
    """A monitor's answer. The inverse of `parse_answer`."""
    return encode({"format": _ANSWER, "v": 1, "result": result})


def parse_answer(data: bytes) -> str:
    """What a monitor answered. Raises: Malformed."""
    try:
        result = known_object(data, _ANSWER, 1, most=MAX_ANSWER, where="monitor").get("result")
    except NotCanonical as e:
        raise Malformed(e.what, where="monitor") from None
    if result not in (AGREES, WAITS, DIFFERS, PROVEN):
        raise Malformed("gives none of the answers that there are", where="monitor")
    return str(result)


@dataclass(frozen=True)
class Said:
    """What a monitor was told last: when, the tree's size, what it answered; or why it could not be told.

    `seen` and `split` are the digests of what was delivered; `ahead` is when it was last told again of what it had not
    read as far as.
    """

    monitor: str = ""
    at: int = 0
    size: int = 0
    result: str = ""
    trouble: str = ""
    seen: str = ""
    split: str = ""
    ahead: int = 0


def keep_notice(home: Path, seen: Checked | None, trouble: InterlockError | None) -> None:
    """Keep what an update saw for the monitor, where that was agreed to. Raises: BadState, NotWritable, Malformed."""
    if not any(purpose == PURPOSE for purpose, _ in read_consents(home)):
        return
    if isinstance(trouble, SplitView):
        _keep(home, _SPLIT, Notice.of(trouble.evidence.old, trouble.evidence.new))
    elif seen is not None:
        notice, ahead = Notice.of(encode_note(seen.note)), _kept(home, _AHEAD)
        if ahead is not None and ahead.origin != notice.origin:  # of a log that is followed no more
            (home / _FOLDER / _AHEAD).unlink(missing_ok=True)
        _keep(home, _SEEN, notice)


def terms_of(monitor: str) -> Terms:
    """What is agreed to: that the monitor at this address is told which checkpoints are seen."""
    return Terms(PURPOSE, monitor, {monitor: ""})


def agreed(home: Path, monitor: str) -> Consent | None:
    """The consent to telling this very monitor; None where there is none. Raises: BadState, NewerFormat."""
    return read_consents(home).get((PURPOSE, monitor))


def tell(home: Path, monitor: str, post: Callable[[bytes], bytes], now_us: int) -> Said:
    """Deliver what waits to a monitor, whose `post` this is, if that was agreed to; returns how it stands.

    Not again within a minute of one that failed. Raises: BadState, NotWritable.
    """
    said = before = read_said(home, monitor)
    waiting = untold(home, said)
    if (ahead := _kept(home, _AHEAD)) is not None and not 0 <= now_us - said.ahead < AHEAD_US:
        waiting[_AHEAD] = ahead
    if not waiting or (said.trouble and 0 <= now_us - said.at < RETRY_US) or agreed(home, monitor) is None:
        return said
    for name, notice in waiting.items():
        try:
            result = _told(notice, post, proves=name == _SPLIT)
        except InterlockError as e:
            said = replace(said, at=now_us, trouble=str(e))
            break
        said = _after(home, said, name, notice, result, now_us)
    if said != before:
        files.replace(home / _FOLDER / _SAID_FILE, stamped(_SAID, 1, asdict(said)))
    return said


def _after(home: Path, said: Said, name: str, notice: Notice, result: str, now_us: int) -> Said:
    """What is known once the monitor answered; what it has not read as far as is kept, the first of these alone."""
    ahead, digest = home / _FOLDER / _AHEAD, sha256_hex(notice.data)
    if name == _AHEAD:
        said = replace(said, ahead=now_us)
        if result == WAITS:
            return said
        ahead.unlink(missing_ok=True)
    elif name == _SEEN and result == WAITS and not ahead.exists():
        files.replace(ahead, notice.data)
        said = replace(said, ahead=now_us)
    if name == _SPLIT:
        said = replace(said, split=digest)
    elif name == _SEEN:
        said = replace(said, seen=digest)
    said = replace(said, at=now_us, trouble="")
    if result == WAITS and said.result == PROVEN:  # what is proven stays so, whatever is longer than what was read
        return said
    return replace(said, size=notice.size, result=result)


def _told(notice: Notice, post: Callable[[bytes], bytes], *, proves: bool) -> str:
    """Post a notice, its notes only where they prove something. Raises: Unreachable, TooLarge, Malformed."""
    if proves:
        return parse_answer(post(notice.data))
    result = parse_answer(post(notice.bare.data))
    return parse_answer(post(notice.data)) if result == DIFFERS else result


def untold(home: Path, said: Said) -> dict[str, Notice]:
    """What was never told yet, by its file; two histories first. Raises: BadState."""
    found = {name: _kept(home, name) for name in (_SPLIT, _SEEN)}
    done = {_SPLIT: said.split, _SEEN: said.seen}
    return {name: one for name, one in found.items() if one is not None and sha256_hex(one.data) != done[name]}


def read_said(home: Path, monitor: str) -> Said:
    """What this monitor was told last. Raises: BadState, NewerFormat."""
    path = home / _FOLDER / _SAID_FILE
    if not path.exists():
        return Said(monitor)
    body = unstamped(read_bounded(path, MAX_ANSWER), _SAID, 1, where=str(path))
    fields = {"v": int, **{key: type(value) for key, value in asdict(Said()).items()}}
    values = typed(body, fields, where=str(path), fix="remove it: it says what the monitor was told")
    del values["v"]
    return Said(**values) if values["monitor"] == monitor else Said(monitor)


def forget_told(home: Path) -> None:
    """Drop what waits, and what is known of what was told."""
    for name in (_SEEN, _SPLIT, _AHEAD, _SAID_FILE):
        with contextlib.suppress(FileNotFoundError):
            (home / _FOLDER / name).unlink()


def _keep(home: Path, name: str, notice: Notice) -> None:
    path = private_dir(home / _FOLDER) / name
    if not path.exists() or read_bounded(path, MAX_NOTICE) != notice.data:
        files.replace(path, notice.data)


def _kept(home: Path, name: str) -> Notice | None:
    path = home / _FOLDER / name
    if not path.exists():
        return None
    try:
        return parse_notice(read_bounded(path, MAX_NOTICE), where=str(path))
    except Malformed as e:
        raise BadState(e.what, where=str(path), fix="remove it: it is written anew by the next update") from None
