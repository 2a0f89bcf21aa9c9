"""New keys for a commons: a root that keyholders made is installed, and a delegated role gets another key.

A root's ceremony is logged first; then the root is served; then everything that a key signs which the root names anew
is signed again, or what its holders signed with the root is published. Between the last two a client refuses what it
finds and keeps what it has; a step that was cut short is taken again by calling the same once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from interlock.base.errors import BadInput
from interlock.base.files import BadState, file_lock
from interlock.commons.holders import CeremonyRefused, demand_targets, read_root, read_targets, targets_of
from interlock.commons.journal import Loose, Wanted
from interlock.commons.keyring import named_key, take_up
from interlock.commons.layout import DELEGATIONS, LOG_POLICY, TOP_ROLES, record_files
from interlock.commons.pack import sha256_hex
from interlock.commons.rootplan import finish_root, plan_of
from interlock.commons.signers import NEXT
from interlock.commons.steps import Begun, Published, Steps
from interlock.commons.toplevel import delegated_keys
from interlock.commons.transcript import demand_transcript
from interlock.commons.waiting import settle_waiting
from interlock.transparency.entry import LogEntry, known_entry
from interlock.transparency.policy import parse_policy
from interlock.transparency.proof import parse_proof

__all__ = ["Installed", "Rekeying"]


@dataclass(frozen=True)
class Installed:
    """A root in force: its version, and the log entry of its ceremony with its place."""

    version: int
    entry: LogEntry
    log_index: int


class Rekeying:
    """Puts new roots, new targets and new keys in force, by the commons' steps."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def install_root(
        self, root: bytes, transcript: bytes, *, log_policy: bytes | None = None, targets: bytes | None = None
    ) -> Installed:
        """Log the ceremony of a root and bring it into force; the one in force already is only logged.

        `log_policy` is what the root names by its digest, where that is not published yet; `targets` are what their
        holders signed with the root, which they have to where they are others than before.
        Raises: CeremonyRefused, BadState (no file has a key that the root names), BadInput, UnfinishedPublish; what
        `append` raises.
        """
        version, newest = read_root(root, "root").signed.version, self.steps.repository.root()
        held = read_root(newest, "newest root").signed.version
        if version == held and root != newest:
            raise CeremonyRefused(f"another root {version} is in force", where="root", fix="use the one that is served")
        previous = newest if version == held + 1 else self.steps.repository.root(version - 1) if version > 1 else None
        finish_root(root, previous=previous)
        demand_transcript(transcript, root, previous)
        self._demand_keys(root)
        self._demand_targets(root, previous, targets)
        policy = None if targets is not None else self._policy_of(root, log_policy)
        self._log_ceremony(version, transcript)
        if policy is not None:
            loose = (_policy_target(policy),)
            self.steps.run((("targets", LOG_POLICY, policy),), lambda base: Begun(loose=loose), None)
        with file_lock(self.steps.home / "lock", wait=True):
            if version == held + 1:
                self.steps.repository.add_root(root)
            for role in TOP_ROLES:
                take_up(self.steps.home / "keys" / f"{role}.key", self.steps.repository.keyids(role))
        if targets is not None and not self._is_in_force(targets):
            self.install_targets(targets)
        self.steps.renew()
        done = self.steps.record(sha256_hex(transcript))
        return Installed(version, known_entry(done.entry), parse_proof(done.proof).index)

    def install_targets(self, targets: bytes) -> Published:
        """Bring targets that their holders signed into force. The same again gives the same answer.

        Raises: CeremonyRefused, for too few signatures, or another version than the next; BadState; UnfinishedPublish;
        as `publish`.
        """
        names = demand_targets(targets, self.steps.repository.root())
        if not names:
            fix = "change what they say with the other commands"
            raise CeremonyRefused("have one key, on this machine, and no holders", where="targets", fix=fix)
        signed = read_targets(targets, "targets").signed
        wanted: Wanted = (("targets", "", targets),)

        def begin(base: Mapping[str, int]) -> Begun:
            if signed.version != base["targets"] + 1:
                told = f"have version {signed.version}, and {base['targets']} is in force"
                raise CeremonyRefused(told, where="targets", fix="ask their holders anew")
            before, keys = self.steps.repository.delegated_keys(base["targets"]), delegated_keys(signed)
            rekeyed = tuple((role, key.text) for role, key in keys.items() if key != before[role])
            self._demand_files(dict(rekeyed))
            return Begun(rekeyed=rekeyed, targets=targets)

        done = self.steps.run(wanted, begin, None)
        with file_lock(self.steps.home / "lock", wait=True):
            for role in DELEGATIONS:
                take_up(self.steps.home / "keys" / f"{role}.key", self.steps.repository.keyids(role))
            settle_waiting(self.steps.home, targets)
        return done

    def _is_in_force(self, targets: bytes) -> bool:
        return self.steps.repository.metadata(f"{self.steps.seen()['targets']}.targets") == targets

    def _demand_targets(self, root: bytes, previous: bytes | None, targets: bytes | None) -> None:
        """Raises: CeremonyRefused, where the targets in force would not be their new holders', or these are not."""
        circle = targets_of(read_root(root, "root").signed)
        before = None if previous is None else targets_of(read_root(previous, "previous root").signed)
        if targets is not None:
            demand_targets(targets, root)
        elif circle is not None and previous is not None and circle != before:
            fix = "give the targets too, which the ceremony wrote beside the root"
            raise CeremonyRefused("have new holders, who have to have signed them", where="targets", fix=fix)

    def rotate(self, role: str, text: str) -> Published:
        """Give a delegated role the key beside its own, whose text this is. The same again gives the same answer.

        Raises: BadInput, UnfinishedPublish; as `publish`.
        """
        if role not in DELEGATIONS:
            raise BadInput("is no delegated role", where=role, fix=f"one of {', '.join(DELEGATIONS)}")
        done = self.steps.run((("key", role, text.encode("ascii")),), lambda base: Begun(rekeyed=((role, text),)), None)
        with file_lock(self.steps.home / "lock", wait=True):
            take_up(self.steps.home / "keys" / f"{role}.key", self.steps.repository.keyids(role))
        return done

    def _demand_keys(self, root: bytes) -> None:
        """Raises: BadState, where the root names a key for a top role that nobody here could sign with."""
        self._demand_files({role: key.text for role, key in plan_of(root).online.items()})

    def _demand_files(self, keys: Mapping[str, str]) -> None:
        """Raises: BadState, where no file here has the key that a role is to have."""
        for role, text in keys.items():
            path = self.steps.home / "keys" / f"{role}.key"
            files = [file for file in (path, path.with_name(path.name + NEXT)) if file.exists()]
            if text not in map(named_key, files):
                fix = "use the folder that the ceremony was asked for"
                raise BadState(f"holds no key of {role} that the root names", where=str(path.parent), fix=fix)

    def _policy_of(self, root: bytes, given: bytes | None) -> bytes | None:
        """The log policy that is to be published for this root, None for nothing. Raises: BadInput, Malformed."""
        named = plan_of(root).log_policy
        out = None
        if self.steps.repository.timestamp_expires_us() is not None:
            out = self.steps.repository.target("targets", self.steps.repository.versions()["targets"], LOG_POLICY)
        if not named or (out is not None and sha256_hex(out) == named):
            return None
        if given is None or sha256_hex(given) != named:
            told = f"the root names a log policy with SHA-256 {named}"
            raise BadInput(told, where="--log-policy", fix="give the file that the ceremony was asked with")
        parse_policy(given)
        return given

    def _log_ceremony(self, version: int, transcript: bytes) -> None:
        """Log a transcript, unless its record, entry and proof are there: a root is logged once."""
        wanted: Wanted = (("root", "root/", transcript),)
        files = [self.steps.repository.public / path for path in record_files(sha256_hex(transcript))]
        if all(file.exists() for file in files) and not self.steps.is_cut_short(wanted):
            return

        def begin(base: Mapping[str, int]) -> Begun:
            key = self.steps.key("snapshot").key
            return Begun(items=(self.steps.record_item("root", "root", version, "root", transcript, key),))

        self.steps.run(wanted, begin, None)


def _policy_target(data: bytes) -> Loose:
    return Loose(LOG_POLICY, "targets", data)
