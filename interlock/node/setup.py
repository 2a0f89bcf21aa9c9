"""Making a role's folder: its keys, tokens and configuration. What is there already is never made anew.

    log         log.key  log-ml-dsa.key  token  add-tokens.json  log-policy.txt (its operator's)  tiles below log/
    witness     witness.key  witness-ml-dsa.key  log-policy.txt (whose logs it cosigns)
    commons     keys/  public/  log-policy.txt  log-token (to publish with)
    mirror      node.json and bootstrap.root.json (what it pinned)
    monitor     node.json and bootstrap.root.json; what it found below it
    dap-leader  hpke.json  tasks/  members.json  collectors.json  helper-token
    dap-helper  hpke.json  tasks/  leaders.json
                either, where it checks members: node.json and bootstrap.root.json (the commons of the member keys)
    issuer      issuer.key  issuer.sqlite; after a rotation successors/ and retired/ (commons.issuer_keys)

Files that hold a secret are 0600, tables of tokens hold hashes only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.errors import BadInput, InterlockError
from interlock.base.files import BadState, demand_new, private_dir, replace
from interlock.base.keys import ARGON2_MEMORY
from interlock.base.primitives import Rng
from interlock.base.settings import FORMAT, VERSION
from interlock.commons.beginning import create_commons, is_commons, make_commons_keys
from interlock.commons.ceremony import assemble, new_keys, request_of, sign_request
from interlock.commons.holders import LEAST_THRESHOLD, CeremonyRefused, Holder, term_of
from interlock.commons.keyring import named_key
from interlock.commons.rootplan import Plan, expiry_us, finish_root, plan_of
from interlock.commons.signers import own_key, read_key
from interlock.commons.transcript import demand_transcript
from interlock.dap.shares import HpkeKey
from interlock.dap.task import AggregatorTask, Task, verify_key_of
from interlock.node.config import toml_text
from interlock.node.pairs import log_lines, make_pair, witness_lines
from interlock.node.storage.dap_tasks import TaskDirectory, hpke_key_in
from interlock.node.tokens import add_token
from interlock.transparency.note import valid_name

__all__ = [
    "TABLES",
    "LogKeys",
    "Root",
    "adopt_root",
    "hold_ceremony",
    "issue_token",
    "keyholder_name",
    "make_aggregator",
    "make_issuer",
    "make_log",
    "make_witness",
    "put_task",
    "write_settings",
]

TABLES: Final[Mapping[str, str]] = {
    "publisher": "add-tokens.json",
    "member": "members.json",
    "collector": "collectors.json",
    "leader": "leaders.json",
}
_HPKE_KEY: Final = "hpke.json"
TRANSCRIPT: Final = "1.root.transcript.json"  # in HOME/ceremony
TARGETS: Final = "1.targets.json"  # beside a root that was made elsewhere, where targets have holders
_NO_EMPLOYERS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True)
class LogKeys:
    """A new log: its lines in a policy, and the file with the token that publishers add entries with."""

    lines: tuple[str, ...]
    token_file: Path


@dataclass(frozen=True)
class Root:
    """A signed root: its bytes, the transcript of its ceremony, who holds keys, and how many had to sign."""

    data: bytes
    transcript: bytes
    holders: tuple[str, ...]
    threshold: int


def make_log(directory: Path, origin: str, rng: Rng, *, url: str = "URL", now_us: int = 0) -> LogKeys:
    """A log's keys and a publisher's token. Raises: NotWritable, BadKey, BadInput (for a bad origin)."""
    _demand_name(origin)
    private_dir(directory)
    make_pair(directory / "log.key", rng)
    token_file = directory / "token"
    if not token_file.exists():
        token = rng(32).hex()
        add_token(directory / TABLES["publisher"], "publisher", token, at=now_us)
        replace(token_file, token.encode("ascii"))
    return LogKeys(tuple(log_lines(directory / "log.key", origin, url)), token_file)


def make_witness(directory: Path, name: str, rng: Rng, *, url: str = "URL", called: str = "") -> list[str]:
    """A witness's keys; returns its lines in a policy. Raises: NotWritable, BadKey, BadInput (for a bad name)."""
    _demand_name(name)
    private_dir(directory)
    make_pair(directory / "witness.key", rng)
    return witness_lines(directory / "witness.key", name, url, called=called)


def hold_ceremony(
    home: Path,
    passphrases: Mapping[str, bytes],
    *,
    threshold: int,
    now_us: int,
    rng: Rng,
    employers: Mapping[str, str] = _NO_EMPLOYERS,
    memory: int = ARGON2_MEMORY,
) -> Root:
    """Make the commons in `home` under a new root: a sealed key a holder in HOME/ceremony, and `threshold` signatures.

    Each holder's key is opened from its file again to sign, so a file that cannot be opened is found now.
    `employers` says for whom a holder works; one who is not in it works for nobody. `targets` gets one key in
    HOME/keys, as all is on one machine here anyway: a trial.
    Raises: CeremonyRefused, BadState, BadKey, NotWritable.
    """
    if is_commons(home):
        raise BadState("is a commons already", where=str(home), fix="use another folder")
    if not LEAST_THRESHOLD <= threshold <= len(passphrases):
        raise CeremonyRefused(
            f"{threshold} are to sign, and there are {len(passphrases)} keyholders",
            where="root",
            fix=f"ask for {LEAST_THRESHOLD} or more of them",
        )
    for name in passphrases:
        keyholder_name(name)
    online = make_commons_keys(home, rng)
    private_dir(home / "ceremony")
    holders = []
    for name, passphrase in passphrases.items():
        ((key, sealed),) = new_keys(passphrase, rng, memory=memory)
        replace(home / "ceremony" / f"{name}.key", sealed)
        holders.append(Holder(name, employers.get(name, ""), *term_of(now_us), keys=(key,)))
    ends = expiry_us("root", now_us)
    request = request_of(Plan(tuple(holders), online, threshold, ends), None, now_us)
    signed = []
    for name in list(passphrases)[:threshold]:
        signer = read_key(home / "ceremony" / f"{name}.key", passphrases[name], least_memory=memory)
        signed.append(sign_request(request, signer))
    root = assemble(request, signed, now_us)
    create_commons(home, root.root, now_us)
    replace(home / "ceremony" / TRANSCRIPT, root.transcript)
    return Root(root.root, root.transcript, tuple(passphrases), threshold)


def adopt_root(home: Path, data: bytes, transcript: bytes | None, now_us: int, targets: bytes | None = None) -> Root:
    """Begin the commons in `home` under a root that keyholders made elsewhere, for the online keys that lie there.

    `targets` are the first, which their holders signed with the root; None where their one key lies there too.
    Raises: CeremonyRefused, BadState, BadKey, NotWritable.
    """
    finish_root(data)
    if transcript is not None:
        demand_transcript(transcript, data, None)
    plan = plan_of(data)
    for role, key in plan.online.items():
        if not (home / "keys" / f"{role}.key").exists():
            fix = f"make keys before the ceremony: interlock mesh keys create --dir {home}"
            raise BadState(f"has no key of {role}", where=str(home / "keys"), fix=fix)
        if named_key(home / "keys" / f"{role}.key") != key.text:
            fix = "use the folder whose keys the ceremony was asked for"
            raise BadState(f"has another key of {role} than the root names", where=str(home / "keys"), fix=fix)
    create_commons(home, data, now_us, targets)
    private_dir(home / "ceremony")
    if transcript is not None:
        replace(home / "ceremony" / TRANSCRIPT, transcript)
    return Root(data, transcript or b"", tuple(h.name for h in plan.holders), plan.threshold)


def make_aggregator(directory: Path, rng: Rng) -> None:
    """A DAP aggregator's folder: its HPKE key, and a place for tasks. Raises: NotWritable."""
    private_dir(directory)
    private_dir(directory / "tasks")
    hpke_key_in(directory / _HPKE_KEY, rng)


def make_issuer(directory: Path, rng: Rng) -> str:
    """An issuer's key; returns its text. Raises: NotWritable, BadKey."""
    private_dir(directory)
    return own_key(directory / "issuer.key", rng).verifier.text


def put_task(directories: Sequence[Path], task: Task, collector: HpkeKey, rng: Rng) -> None:
    """Give a task to leader and helper: the same verification key to both, the collector's public key.

    Raises: NotWritable.
    """
    held = AggregatorTask(task, verify_key_of(rng(32), task.task_id), collector.config)
    for directory in directories:
        TaskDirectory(directory / "tasks").add(held)


def issue_token(
    directory: Path,
    table: str,
    name: str,
    out: Path,
    rng: Rng,
    tasks: Iterable[bytes] | None = None,
    *,
    now_us: int = 0,
) -> None:
    """Make a bearer token: its hash goes into the role's table, the token itself into the new private file `out`.

    `table` is a key of TABLES; the token is for the tasks of these ids or, with None, for all. `now_us` is kept with
    it, 0 for no time.
    Raises: NotWritable, BadState, BadInput (a name or file that is there already).
    """
    demand_new(out)
    token = rng(32).hex()
    replace(out, token.encode("ascii"))
    try:
        add_token(directory / TABLES[table], name, token, tasks, at=now_us, new=True)
    except InterlockError:
        out.unlink(missing_ok=True)  # it would open nothing
        raise


def write_settings(path: Path, section: str, values: Mapping[str, str | float | list[str]]) -> None:
    """Write a configuration file with one section, unless there is one already. Raises: NotWritable."""
    if path.exists():
        return
    lines = [
        f"format = {toml_text(FORMAT)}",
        f"v = {VERSION}",
        "",
        f"[{section}]",
        *(f"{key} = {_toml(value)}" for key, value in values.items()),
    ]
    replace(path, ("\n".join(lines) + "\n").encode("utf-8"))


def _toml(value: str | float | list[str]) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(toml_text, value))}]"
    return toml_text(value) if isinstance(value, str) else str(value)


def _demand_name(name: str) -> None:
    if not valid_name(name):
        raise BadInput("is no name for a key (no space, no plus sign)", where=f"--name {name}")


def keyholder_name(name: str) -> str:
    """A name that can be a file's too. Raises: BadInput."""
    if not name or not all(c.isalnum() or c in "-_." for c in name) or name.startswith("."):
        raise BadInput("is no name for a file (letters, digits, - _ .)", where=f"keyholder {name!r}")
    return name
