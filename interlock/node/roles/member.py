"""An organisation's side of membership: enrol with an issuer once, then fetch the one credential of each epoch.

    HOME/member.key    the organisation's Ed25519 key, 0600       HOME/member.json   the issuer, and its certificate
                                                                  and the keys that the issuer had before
    HOME/node.sqlite   requests that were sent, and credentials that were not used up yet (node.storage.node)

A request is stored before it is sent and sent again unchanged until it is answered, so a lost answer loses no
credential. The key that a blind token is of comes from the commons, never from the issuer: one that showed each
organisation a key of its own could tell whose report is whose. Where it names another key of the issuer than the one
that was joined, that key's own word, and each successor's, has to lead there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path
from typing import ClassVar, Final

from interlock.base.blind_rsa import PREFIX_SIZE, BlindRsa, blinding, modulus_size, prepare
from interlock.base.canonical import NotCanonical, json_object
from interlock.base.clock import rfc3339
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.fetch import NotFound, Unreachable
from interlock.base.files import BadState, private_dir, read_bounded, replace, stamped, unstamped
from interlock.base.keys import Ed25519Signer, Ed25519Verifier
from interlock.base.primitives import BadSignature, Rng
from interlock.commons.enrolment import (
    Certificate,
    IssuedCount,
    dump_enrolment,
    dump_token_request,
    parse_certificate,
    parse_count,
)
from interlock.commons.memberfiles import demand_issuer_apart
from interlock.commons.membership import (
    BLIND,
    MemberKeys,
    MembershipProof,
    TaskMembership,
    certificate_message,
    token_message,
)
from interlock.commons.operators import Operators
from interlock.commons.signers import own_key, read_key
from interlock.commons.statements import ed25519_key
from interlock.commons.succession import CHAIN_MOST, parse_chain
from interlock.dap.task import Task, TaskRefused
from interlock.dap.transport import Exchange, Reply
from interlock.node.storage.node import Credential, NodeStore

__all__ = ["ClockAhead", "Credentials", "IssuerRefused", "Joined", "count_of", "join", "read_joined", "successors_of"]

_FILE: Final = "member.json"
_KEY: Final = "member.key"
_FORMAT: Final = "interlock-member"
_LIMIT: Final = 1 << 20
_JSON: Final = "application/json"
KeysOf = Callable[[str, int], MemberKeys]  # a task's name and an epoch -> its member keys, as the commons signed them


class IssuerRefused(InterlockError):
    """The issuer said no."""

    code: ClassVar[str] = "not-allowed"


class ClockAhead(IssuerRefused):
    """The issuer's clock says that an epoch has not begun, which has by ours: it is no use to ask for later ones."""


@dataclass(frozen=True)
class Joined:
    """An organisation's membership: where its issuer is, and the certificate once it was enrolled.

    `former` are the keys that the issuer had before `issuer`, the oldest first.
    """

    home: Path
    organisation: str
    url: str
    issuer: Ed25519Verifier
    signer: Ed25519Signer
    certificate: Certificate | None
    former: tuple[Ed25519Verifier, ...] = ()

    def trusts(self, issuer: Ed25519Verifier) -> bool:
        return issuer == self.issuer or issuer in self.former


def join(
    home: Path, organisation: str, url: str, issuer: Ed25519Verifier, invite: str, exchange: Exchange, rng: Rng
) -> Joined:
    """Ask an issuer to be enrolled, with an invite code or (where it is empty) by a person's decision.

    Safe to repeat: the key is made once. Raises: IssuerRefused, Unreachable, Malformed, BadSignature, BadState,
    NotWritable.
    """
    signer = own_key(private_dir(home) / _KEY, rng)
    before = read_joined(home) if (home / _FILE).exists() else None
    if before is not None and (before.organisation, before.issuer) != (organisation, issuer):
        raise BadState("is enrolled otherwise already", where=str(home / _FILE), fix="use another home")
    former = () if before is None else before.former
    return _enrolled(Joined(home, organisation, url, issuer, signer, None, former), invite, exchange)


def read_joined(home: Path) -> Joined:
    """This organisation's membership. Raises: BadState, NewerFormat, BadKey."""
    path = home / _FILE
    if not path.exists():
        raise BadState("is no member's home yet", where=str(home), fix="run interlock mesh members join")
    body = unstamped(read_bounded(path, _LIMIT), _FORMAT, 1, where=str(path))
    texts = [body.get(name) for name in ("organisation", "url", "issuer", "certificate")]
    try:
        organisation, url, issuer, certificate = (text if isinstance(text, str) else _not_text() for text in texts)
        key = ed25519_key(issuer, where=str(path))
        signer = read_key(home / _KEY)
        former = tuple(ed25519_key(text, where=str(path)) for text in _list(body.get("former", [])))
        return Joined(
            home, organisation, url, key, signer, _certificate(certificate, organisation, signer, key), former
        )
    except (ValueError, InterlockError) as e:
        raise BadState(f"is damaged ({e})", where=str(path), fix="run interlock mesh members join again") from None


class Credentials:
    """Fetches and keeps this organisation's credentials.

    `keys_of` brings member keys from the commons, verified; `operators` the commons' list of who runs what, if any.
    """

    def __init__(
        self,
        joined: Joined,
        store: NodeStore,
        keys_of: KeysOf,
        exchange: Exchange,
        rsa: BlindRsa,
        rng: Rng,
        *,
        operators: Callable[[], Operators | None] = lambda: None,
    ) -> None:
        self._joined = joined
        self._store = store
        self._keys_of = keys_of
        self._exchange = exchange
        self._rsa = rsa
        self._rng = rng
        self._operators = operators

    def proof(self, task: Task, epoch: int) -> MembershipProof:
        """The right to one report of a task and epoch, fetched if it is not here yet.

        Raises: IssuerRefused, ClockAhead, Unreachable; TaskRefused, for keys that are not those of this task's issuer;
        OneHand, where the list of operators does not show that it is run apart; what `keys_of` raises.
        """
        held = self.held(task, epoch)
        if held is not None:
            return held
        self._fetch(task, epoch)
        made = self.held(task, epoch)
        assert made is not None, "it was stored just now"
        return made

    def held(self, task: Task, epoch: int) -> MembershipProof | None:
        """The right to one report, if it is here."""
        found = self._store.credential(task.task_id, epoch)
        if found is None or not found.signature:
            return None
        signer = Ed25519Signer(found.seed) if found.seed else self._joined.signer
        return MembershipProof(task.task_id, epoch, signer, found.prefix, found.signature)

    def _fetch(self, task: Task, epoch: int) -> None:
        keys = self._checked_keys(task, epoch)
        row = self._store.credential(task.task_id, epoch) or self._store.begin_credential(
            task.task_id, epoch, self._begun(keys, task.task_id)
        )
        url = self._joined.url.rstrip("/") + "/credentials"
        reply = _answered(self._exchange("POST", url, _JSON, row.request), url)
        signature = self._used(keys, task.task_id, row, reply.body)
        self._store.finish_credential(task.task_id, epoch, signature)

    def _checked_keys(self, task: Task, epoch: int) -> MemberKeys:
        wanted = TaskMembership.decode(task.membership or b"")
        keys = self._keys_of(wanted.task, epoch)
        if keys.backend != wanted.backend or not self._followed(keys.issuer):
            told = f"has member keys of kind {keys.backend} and issuer {keys.issuer.key_id}"
            raise TaskRefused(told, where=f"task {wanted.task}, epoch {epoch}", fix="ask the task's author")
        operators = self._operators()
        if operators is not None:
            leader, helper = (url.decode("ascii") for url in (task.config.leader_url, task.config.helper_url))
            demand_issuer_apart(operators, keys.issuer, leader, helper)
        return keys

    def _followed(self, issuer: Ed25519Verifier) -> bool:
        """Whether a key is the issuer's that was joined, or follows it in its own word; then it is joined from now on.

        Raises: IssuerRefused, Unreachable.
        """
        if not self._joined.trusts(issuer):
            self._joined = read_joined(self._joined.home)  # another process of this organisation may have followed it
        if self._joined.trusts(issuer):
            return True
        before = self._joined
        try:
            heirs = successors_of(before.url, before.issuer, self._exchange)
        except (Malformed, BadSignature):
            return False
        if issuer not in heirs:
            return False
        former = (*before.former, before.issuer, *heirs[: heirs.index(issuer)])[-CHAIN_MOST:]
        self._joined = _enrolled(changed(before, issuer=issuer, former=former), "", self._exchange)
        return True

    def _begun(self, keys: MemberKeys, task_id: bytes) -> Credential:
        """A request for the credential of an epoch, with all that is random of it."""
        seed = prefix = blinded = inverse = b""
        if keys.backend == BLIND:
            seed = self._rng(32)
            public = Ed25519Signer(seed).verifier.public
            prepared = prepare(token_message(task_id, keys.epoch, public), self._rng)
            prefix = prepared[:PREFIX_SIZE]
            blinded, inverse = self._rsa.blind(keys.token_key, prepared, *blinding(keys.token_key, self._rng))
        request = dump_token_request(
            self._joined.signer,
            task=keys.task,
            epoch=keys.epoch,
            task_id=task_id,
            blinded=blinded,
            issuer=keys.issuer,
        )
        return Credential(request, seed, prefix, inverse)

    def _used(self, keys: MemberKeys, task_id: bytes, row: Credential, answer: bytes) -> bytes:
        """The issuer's signature, verified. Raises: Malformed, BadSignature."""
        if keys.backend == BLIND:
            public = Ed25519Signer(row.seed).verifier.public
            prepared = row.prefix + token_message(task_id, keys.epoch, public)
            try:
                return self._rsa.finalize(keys.token_key, prepared, answer, row.inverse)
            except Malformed as e:
                if len(answer) != modulus_size(keys.token_key):
                    raise
                raise BadSignature(e.what) from None  # of another key: by chance its number is too large for this one
        keys.issuer.verify(certificate_message(task_id, keys.epoch, self._joined.signer.verifier.public), answer)
        return answer


def count_of(url: str, task: str, epoch: int, exchange: Exchange) -> IssuedCount:
    """What an issuer says of an epoch, signed by the key that it says. Raises: NotFound, Unreachable, Malformed."""
    asked = f"{url.rstrip('/')}/counts/{task}/{epoch}"
    return parse_count(_answered(exchange("GET", asked), asked).body, where=asked)


def successors_of(url: str, key: Ed25519Verifier, exchange: Exchange) -> tuple[Ed25519Verifier, ...]:
    """The keys that an issuer's key was followed by, each in the word of the one before; none where it was not.

    Raises: Unreachable, IssuerRefused, Malformed, BadSignature.
    """
    asked = f"{url.rstrip('/')}/successors/{key.public.hex()}"
    try:
        return parse_chain(_answered(exchange("GET", asked), asked).body, key, where=asked)
    except NotFound:
        return ()


def _enrolled(joined: Joined, invite: str, exchange: Exchange) -> Joined:
    """Enrol, and keep it. Raises: as `join`."""
    asked = joined.url.rstrip("/") + "/enrol"
    body = dump_enrolment(joined.signer, joined.organisation, invite, joined.issuer)
    text = _answered(exchange("POST", asked, _JSON, body), asked).body.decode("ascii", "replace")
    certificate = _certificate(text, joined.organisation, joined.signer, joined.issuer)
    kept: dict[str, object] = {
        "organisation": joined.organisation,
        "url": joined.url,
        "issuer": joined.issuer.text,
        "former": [key.text for key in joined.former],
        "certificate": text,
    }
    replace(joined.home / _FILE, stamped(_FORMAT, 1, kept))
    return changed(joined, certificate=certificate)


def _answered(reply: Reply, url: str) -> Reply:
    """Raises: IssuerRefused, with what the issuer said; NotFound; Unreachable, for what is worth a retry."""
    if reply.status in (200, 202):
        return reply
    if reply.status in (400, 403, 404):
        try:
            body = json_object(reply.body, url)
        except NotCanonical:
            body = {"error": f"HTTP {reply.status}"}
        said, theirs = str(body.get("error", "")), body.get("now_us")
        if reply.status == 403 and type(theirs) is int and 0 <= theirs < 1 << 53:
            told = f"this machine's clock is ahead of the issuer's, where it is {rfc3339(theirs)}"
            raise ClockAhead(told, where=url, fix="set the clock that is wrong; nothing is lost by then")
        if reply.status == 404:
            raise NotFound(f"does not know it ({said})", where=url)
        raise IssuerRefused(f"refused: {said}", where=url)
    raise Unreachable(f"answered HTTP {reply.status}", where=url, fix="check the issuer's log")


def _certificate(text: str, organisation: str, signer: Ed25519Signer, issuer: Ed25519Verifier) -> Certificate | None:
    """The certificate, if it is ours and this issuer's; none while a person is to decide. Raises: IssuerRefused."""
    if not text:
        return None
    found = parse_certificate(text.encode("ascii"))
    if (found.organisation, found.key, found.issuer) != (organisation, signer.verifier, issuer):
        raise IssuerRefused("gave the certificate of another key or organisation", where=organisation)
    return found


def _list(value: object) -> list[object]:
    if not isinstance(value, list) or len(value) > CHAIN_MOST:
        raise ValueError("former is no list of keys")
    return value


def _not_text() -> str:
    raise ValueError("a field is no text")
