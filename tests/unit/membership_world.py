"""An issuer and organisations in one process, with real keys, real blind signatures and real stores."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable
from pathlib import Path

from interlock.base import blind_rsa
from interlock.base.blind_rsa import PythonBlindRsa
from interlock.base.clock import ManualClock
from interlock.base.codec import Malformed
from interlock.base.fetch import NotFound
from interlock.base.keys import Ed25519Signer
from interlock.base.primitives import BadSignature
from interlock.commons.issuer_keys import IssuerKeys
from interlock.commons.membership import (
    BLIND,
    MemberKeys,
    MembershipProof,
    TaskMembership,
    build_member_keys,
    parse_member_keys,
)
from interlock.dap.task import Task
from interlock.dap.transport import Reply
from interlock.node.roles.issuer import Issuer, NotBegun, invite_hash
from interlock.node.roles.member import Credentials, Joined, join
from interlock.node.storage.issuer import Epoch, IssuerStore, Refused
from interlock.node.storage.node import NodeStore, open_store
from tests.unit.commons_world import seed

NAME = "rules-1"  # of the task, in the commons
OPERATOR = "enrol.example"
DAY_US = 86_400_000_000
URL = "https://issuer.test"


@functools.cache
def token_key(number: int = 0) -> bytes:
    """A private token key; small, and made once a run."""
    return blind_rsa.new_private_key(2048)


def membership(backend: str = BLIND) -> bytes:
    return TaskMembership(backend, NAME).encode()


class IssuerWorld:
    """An issuer over its store; `line` is an organisation's way to it, with whatever fault a test sets."""

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        self.clock = clock
        self.rng = random.Random(9474).randbytes
        self.signer: Ed25519Signer = seed("issuer")
        self.store = IssuerStore(folder / "issuer.sqlite")
        self.issuer = Issuer(self.store, IssuerKeys(self.signer), OPERATOR, PythonBlindRsa(), clock, self.rng)
        self.after: Callable[[Reply], Reply] = lambda reply: reply
        self.asked: list[bytes] = []
        self.published = True

    def open_epoch(
        self,
        epoch: int,
        *,
        backend: str = BLIND,
        key: int = 0,
        lasts_us: int = DAY_US,
        least_age: int = 0,
        opens_at: int = 0,
    ) -> MemberKeys:
        """An epoch with a key that other tests have too, which saves the time to make one."""
        private = token_key(key) if backend == BLIND else b""
        made = build_member_keys(
            self.signer,
            task=NAME,
            epoch=epoch,
            backend=backend,
            operator=OPERATOR,
            closes_at=self.clock.now_us() + lasts_us,
            token_key=blind_rsa.public_of(private) if private else b"",
            least_age=least_age,
        )
        self.store.add_epoch(NAME, epoch, Epoch(made.data, made.closes_at, private, opens_at))
        return made

    def keys_of(self, task: str, epoch: int) -> MemberKeys:
        """What the commons has published. Raises: NotFound."""
        if not self.published:
            raise NotFound("is not there", where="commons")
        return parse_member_keys(self.issuer.member_keys(task, epoch), where="commons")

    def invite(self, organisation: str = "", days: int = 1) -> str:
        code = self.rng(16).hex()
        self.store.add_invite(invite_hash(code), organisation, self.clock.now_us() + days * DAY_US)
        return code

    def __call__(self, method: str, url: str, media_type: str = "", body: bytes = b"") -> Reply:
        work: dict[str, Callable[[bytes], bytes]] = {
            "enrol": self.issuer.process_enrolment,
            "credentials": self.issuer.process_request,
            "successors": lambda _: self.issuer.successors(url.rsplit("/", 1)[1]),
        }
        self.asked.append(body)
        try:
            found = work[url.split("/")[3]](body)
        except (Refused, BadSignature) as e:
            clock = {"now_us": e.now_us} if isinstance(e, NotBegun) else {}
            return Reply(403, body=json.dumps({"error": str(e), **clock}).encode())
        except Malformed:
            return Reply(400)
        except NotFound:
            return Reply(404)
        return self.after(Reply(200 if found else 202, body=found))

    def close(self) -> None:
        self.store.close()


class Organisation:
    """One organisation: enrolled at the issuer, with a store of its own."""

    def __init__(self, name: str, home: Path, world: IssuerWorld, invite: str | None = None) -> None:
        self.name = name
        self.home = home
        self.world = world
        self.rng = random.Random(name).randbytes
        home.mkdir(exist_ok=True)
        self.joined = self.join(world.invite() if invite is None else invite)
        self.store: NodeStore = open_store(home)
        self.credentials = Credentials(self.joined, self.store, world.keys_of, world, PythonBlindRsa(), self.rng)

    def join(self, invite: str) -> Joined:
        return join(self.home, self.name, URL, self.world.signer.verifier, invite, self.world, self.rng)

    def proof(self, task: Task, epoch: int) -> MembershipProof:
        return self.credentials.proof(task, epoch)

    def close(self) -> None:
        self.store.close()
