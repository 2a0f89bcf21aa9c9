"""The issuer: enrols organisations, gives each one credential a task and epoch, and says how many it gave out.

It knows who is a member and never sees a report; an aggregator sees reports and, with blind tokens, never learns whose
they are. That holds only while no operator is both, so an issuer is neither an aggregator nor a collector.

Where its key was changed, an epoch stays under the key that its published member keys name: it is asked for by that
key, and what is signed for it is signed with that key.
"""

from __future__ import annotations

import hashlib
from typing import Final

from interlock.base.blind_rsa import BlindRsa, new_private_key, public_of
from interlock.base.clock import DAY_US, MICROSECONDS, Clock, rfc3339
from interlock.base.fetch import NotFound
from interlock.base.keys import Ed25519Signer, Ed25519Verifier, ed25519_of
from interlock.base.primitives import Rng
from interlock.commons.enrolment import (
    TokenRequest,
    dump_certificate,
    dump_count,
    parse_enrolment,
    parse_token_request,
)
from interlock.commons.issuer_keys import IssuerKeys
from interlock.commons.membership import (
    BLIND,
    MemberKeys,
    build_member_keys,
    certificate_message,
    parse_member_keys,
)
from interlock.commons.succession import chain_from, chain_to
from interlock.node.storage.issuer import Epoch, IssuerStore, MemberState, Refused

__all__ = ["SKEW_US", "TOKEN_KEY_BITS", "Issuer", "NotBegun", "invite_hash"]

TOKEN_KEY_BITS: Final = 3072
SKEW_US: Final = 300 * MICROSECONDS  # by how much the clock of whoever asks may be ahead


class NotBegun(Refused):
    """A credential of an epoch that has not begun: whoever asks has a clock that is ahead of this one, `now_us`."""

    def __init__(self, where: str, opens_at: int, now_us: int) -> None:
        told = f"begins at {rfc3339(opens_at)}, and it is {rfc3339(now_us)}: there is no credential of it yet"
        super().__init__(told, where=where, fix="set the clock that is wrong")
        self.now_us = now_us


class Issuer:
    """What an issuer does, over its store; `operator` is who runs it, as the operators' list names them.

    Raises, throughout: Refused, Malformed, BadSignature.
    """

    def __init__(
        self, store: IssuerStore, keys: IssuerKeys, operator: str, rsa: BlindRsa, clock: Clock, rng: Rng
    ) -> None:
        self._store = store
        self._keys = keys
        self._signer = keys.signer
        self._signers = {**keys.former, keys.signer.verifier.text: keys.signer}
        self._names = [ed25519_of(text) for text in {**keys.successions, **self._signers}]
        self._operator = operator
        self._rsa = rsa
        self._clock = clock
        self._rng = rng

    @property
    def verifier(self) -> Ed25519Verifier:
        """Its key, by which organisations and the commons know it."""
        return self._signer.verifier

    def open_epoch(
        self,
        task: str,
        epoch: int,
        backend: str,
        opens_at: int,
        closes_at: int,
        *,
        bits: int = TOKEN_KEY_BITS,
        least_age: int = 0,
    ) -> bytes:
        """The member keys of an epoch, made if it has none; an epoch's key never changes. Raises: BadKey, Malformed.

        Credentials are given out from `opens_at`, when the epoch begins (SKEW_US is allowed), until `closes_at`.
        `least_age` is for how many days an organisation has to be enrolled to get a credential.
        """
        found = self._store.epoch(task, epoch)
        if found is not None:
            return found.keys
        private = new_private_key(bits) if backend == BLIND else b""
        token_key = public_of(private) if private else b""
        keys = build_member_keys(
            self._signer,
            task=task,
            epoch=epoch,
            backend=backend,
            operator=self._operator,
            closes_at=closes_at,
            token_key=token_key,
            least_age=least_age,
            follows=chain_to(self._keys.successions, self.verifier),
        )
        return self._store.add_epoch(task, epoch, Epoch(keys.data, closes_at, private, opens_at)).keys

    def process_enrolment(self, body: bytes) -> bytes:
        """Enrolment -> certificate, or nothing while it waits for a person."""
        asked = parse_enrolment(body, *self._names)
        signer = self._signer_of(asked.issuer)
        code = invite_hash(asked.invite) if asked.invite else ""
        member = self._store.enrol(asked.organisation, asked.key.text, code, self._clock.now_us())
        if member.state is MemberState.PENDING:
            return b""
        return dump_certificate(signer, member.organisation, asked.key, member.at)

    def process_request(self, body: bytes) -> bytes:
        """TokenRequest -> the issuer's signature; the same bytes again get the same answer."""
        asked = parse_token_request(body, *self._names)
        now_us = self._clock.now_us()
        self._store.forget_closed(now_us)
        epoch = self._store.epoch(asked.task, asked.epoch)
        if epoch is None:
            raise NotFound("has no member keys here", where=f"task {asked.task}, epoch {asked.epoch}")
        if now_us < epoch.opens_at - SKEW_US:  # a clock that is ahead would use up epochs to come
            raise NotBegun(f"task {asked.task}, epoch {asked.epoch}", epoch.opens_at, now_us)
        keys = parse_member_keys(epoch.keys, where="member keys")
        if asked.issuer != keys.issuer:
            raise Refused(
                "is not of the key that the request is made for", where=f"task {asked.task}, epoch {asked.epoch}"
            )

        def answer() -> bytes:
            if now_us >= epoch.closes_at:
                told = "is closed, and no credential is given out for it"
                raise Refused(told, where=f"task {asked.task}, epoch {asked.epoch}")
            return self._signed(keys, epoch.private, asked)

        # What the plain signature says of the DAP task belongs to the request as much as blinded bytes do.
        bytes_asked = asked.task_id + asked.blinded
        latest = now_us - keys.least_age * DAY_US
        return self._store.give(asked.task, asked.epoch, asked.key.text, bytes_asked, answer, now_us, latest=latest)

    def member_keys(self, task: str, epoch: int) -> bytes:
        return self._known(task, epoch).keys

    def count(self, task: str, epoch: int) -> bytes:
        """How many credentials of an epoch were given out, signed; final once it is closed."""
        found, now_us = self._known(task, epoch), self._clock.now_us()
        opener = parse_member_keys(found.keys, where="member keys").issuer
        signer = self._signers.get(opener.text, self._signer)
        issued, could = self._store.counts(task, epoch)
        return dump_count(
            signer, task=task, epoch=epoch, issued=issued, enrolled=could, final=now_us >= found.closes_at, at=now_us
        )

    def successors(self, key: str) -> bytes:
        """The chain from a former key, in hex, to the one in use. Raises: NotFound."""
        former = self._keys.successions.get(f"ed25519:{key}")
        chain = b"" if former is None else chain_from(self._keys.successions, former.issuer, self.verifier)
        if not chain:
            raise NotFound("is no former key of this issuer", where="successors")
        return chain

    def _known(self, task: str, epoch: int) -> Epoch:
        found = self._store.epoch(task, epoch)
        if found is None:
            raise NotFound("has no member keys here", where=f"task {task}, epoch {epoch}")
        return found

    def _signed(self, keys: MemberKeys, private: bytes, asked: TokenRequest) -> bytes:
        if (keys.backend == BLIND) != bool(asked.blinded):
            raise Refused(f"takes credentials of kind {keys.backend}", where=f"task {keys.task}")
        if keys.backend == BLIND:
            return self._rsa.blind_sign(private, asked.blinded, self._rng)
        signer = self._signers.get(keys.issuer.text)
        if signer is None:
            raise Refused("was opened under a key that is not here any more", where=f"task {keys.task}")
        return signer.sign(certificate_message(asked.task_id, asked.epoch, asked.key.public))

    def _signer_of(self, key: Ed25519Verifier) -> Ed25519Signer:
        """The key in use; or a former one while credentials are given out under it. Raises: Refused."""
        found = self._signers.get(key.text)
        if found is self._signer:
            return self._signer
        now_us = self._clock.now_us()
        under = (parse_member_keys(data, where="member keys").issuer for data in self._store.open_keys(now_us))
        if found is None or key not in under:
            fix = f"the key is now {self.verifier.text}: ask its operator whether it is"
            raise Refused("is made for a former key, whose epochs are over", where="enrolment", fix=fix)
        return found


def invite_hash(code: str) -> str:
    """What is kept of an invite code, in hex; codes are 16 random bytes, so no salt is needed."""
    return hashlib.sha256(b"interlock/invite/v1\n" + code.encode("utf-8")).hexdigest()
