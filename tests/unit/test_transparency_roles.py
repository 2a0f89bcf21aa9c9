"""The log and the witness over HTTP, joined in one process through ASGI: real keys, real files, no sockets."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from interlock.base.clock import ManualClock
from interlock.base.fetch import HttpPoster, TooLarge, Unreachable
from interlock.base.files import NotWritable
from interlock.base.keys import Ed25519Signer, MlDsaSigner
from interlock.node.roles import adder
from interlock.node.roles import log as log_role
from interlock.node.roles import witness as witness_role
from interlock.node.tokens import Grant, TokenTable, token_hash
from interlock.transparency.checkpoint import Cosigner, parse_checkpoint
from interlock.transparency.follow import LogView
from interlock.transparency.log import open_log
from interlock.transparency.note import NoteSigner, parse_note
from interlock.transparency.policy import Group, Peer, TlogPolicy
from interlock.transparency.proof import parse_proof
from interlock.transparency.submit import submit
from interlock.transparency.tiles import Tile
from interlock.transparency.witness import MAX_REQUEST, Witness, add_checkpoint_request
from tests.unit.log_entries import pack_entry
from tests.unit.memory_fetcher import MemoryFetcher

ORIGIN = "log.example/packs"
SIGNER = NoteSigner(ORIGIN, Ed25519Signer(b"\x01" * 32))
COSIGNERS = {f"w{i}": Cosigner(f"witness.example/w{i}", Ed25519Signer(bytes([0x10 + i]) * 32)) for i in range(3)}
TOKEN = "a-token-of-some-length"
PATIENCE_S = 5  # a busy machine holds even a fake witness up for a second; one test waits this long
AUTH = {"Authorization": f"Bearer {TOKEN}"}


def entry(version: int = 1) -> bytes:
    return pack_entry("coding-agent", version, "ab" * 32, at=1_800_000_000_000_000).data


def policy(least: int = 2) -> TlogPolicy:
    witnesses = {name: Peer(c.key, f"http://{name}.example/w/") for name, c in COSIGNERS.items()}
    return TlogPolicy((Peer(SIGNER.key),), witnesses, {"q": Group(least, tuple(witnesses))}, "q")


class Mesh(httpx.AsyncBaseTransport):
    """Routes each host to its application; a host in `down` refuses, one in `silent` never answers."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.down: set[str] = set()
        self.silent: set[str] = set()
        self.says: dict[str, tuple[int, bytes]] = {}
        self.with_headers: dict[str, str] = {}
        self.requests: list[tuple[str, bytes]] = []
        self.witnesses = {name: self.witness(name) for name in COSIGNERS}

    def witness(self, name: str) -> Starlette:
        home = self.root / name
        return witness_role.app(Witness(home, [COSIGNERS[name]], {ORIGIN: [SIGNER.key]}, ManualClock()))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        name = request.url.host.split(".")[0]
        body = await request.aread()
        self.requests.append((name, body))
        if name in self.down:
            raise httpx.ConnectError("refused")
        if name in self.silent:
            await asyncio.sleep(60)
        if name in self.says:
            status, said = self.says[name]
            return httpx.Response(status, content=said, headers=self.with_headers)
        assert request.url.path == "/w/add-checkpoint"
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.witnesses[name])) as client:
            return await client.post("http://witness/add-checkpoint", content=body)


@asynccontextmanager
async def serving(root: Path, mesh: Mesh, rule: TlogPolicy | None = None) -> AsyncIterator[httpx.AsyncClient]:
    with open_log(root / "log", SIGNER) as log:
        outward = httpx.AsyncClient(transport=mesh)
        app = log_role.app(
            log,
            rule or policy(),
            tokens=TokenTable(lambda: {"publisher": Grant(token_hash(TOKEN))}),
            client=outward,
            witness_timeout_s=PATIENCE_S,
        )
        async with outward, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://log") as client:
            yield client


def run(
    root: Path, scene: Callable[[httpx.AsyncClient, Mesh], Awaitable[None]], rule: TlogPolicy | None = None
) -> None:
    async def main() -> None:
        mesh = Mesh(root)
        async with serving(root, mesh, rule) as client:
            await scene(client, mesh)

    asyncio.run(main())


def test_an_added_entry_comes_back_with_a_proof_that_a_node_accepts(tmp_path: Path) -> None:
    async def scene(client: httpx.AsyncClient, _mesh: Mesh) -> None:
        for version in range(1, 4):
            answer = await client.post("/add", content=entry(version), headers=AUTH)
            assert answer.status_code == 200
            proof = submit(entry(version), policy(), {entry(version): answer.content}.__getitem__)
            assert proof.index == version - 1
            again = await client.get("/proof", params={"index": version - 1})
            assert parse_proof(again.content).verify(entry(version), policy()).checkpoint.size == version
        public = {p: (await client.get(p)).content for p in ("checkpoint", Tile(0, 0, 3).path)}
        view = LogView(tmp_path / "node", policy(), ManualClock())
        assert len(view.refresh(MemoryFetcher(public)).cosigned) >= 2

    run(tmp_path, scene)


def test_static_files_have_the_types_and_cache_headers_of_the_specification(tmp_path: Path) -> None:
    async def scene(client: httpx.AsyncClient, _mesh: Mesh) -> None:
        assert (await client.get("/checkpoint")).status_code == 404
        await client.post("/add", content=entry(), headers=AUTH)
        checkpoint = await client.get("/checkpoint")
        assert checkpoint.headers["content-type"] == "text/plain; charset=utf-8"
        assert checkpoint.headers["cache-control"] == "no-cache"
        for path in (Tile(0, 0, 1).path, Tile(-1, 0, 1).path):
            tile = await client.get("/" + path)
            assert tile.headers["content-type"] == "application/octet-stream"
            assert "immutable" in tile.headers["cache-control"]
        assert tile.content == len(entry()).to_bytes(2, "big") + entry()
        for path in ("/tile/0/000", "/tile/0/000.p/01", "/tile/0/..%2f..%2fsigned", "/journal", "/signed", "/tile/"):
            assert (await client.get(path)).status_code == 404
        for index in ("1", "-1", "01", ""):
            assert (await client.get("/proof", params={"index": index})).status_code in (400, 404)

    run(tmp_path, scene)


def test_only_the_holder_of_the_token_adds(tmp_path: Path) -> None:
    async def scene(client: httpx.AsyncClient, mesh: Mesh) -> None:
        for authorization, status in (("", 401), (TOKEN, 401), ("Bearer x", 403), (f"Basic {TOKEN}", 401)):
            answer = await client.post("/add", content=entry(), headers={"Authorization": authorization})
            assert (answer.status_code, answer.headers["www-authenticate"]) == (status, "Bearer")
        assert mesh.requests == []
        assert (await client.get("/add")).status_code == 405

    run(tmp_path, scene)


def test_bodies_that_are_empty_too_large_or_break_our_own_form_are_refused(tmp_path: Path) -> None:
    async def scene(client: httpx.AsyncClient, mesh: Mesh) -> None:
        for body, status in ((b"", 400), (b"x" * 65_536, 413), (entry() + b" ", 400)):
            answer = await client.post("/add", content=body, headers=AUTH)
            assert answer.status_code == status
            assert answer.text.count("\n") == 1
        assert mesh.requests == []
        assert (await client.post("/add", content=b'{"v":2}', headers=AUTH)).status_code == 200  # kept, never trusted

    run(tmp_path, scene)


def test_a_dead_and_a_silent_witness_do_not_stop_a_quorum_of_the_others(tmp_path: Path) -> None:
    async def scene(client: httpx.AsyncClient, mesh: Mesh) -> None:
        mesh.down = {"w0"}
        mesh.silent = {"w1"}
        assert (await client.post("/add", content=entry(), headers=AUTH)).status_code == 200

    run(tmp_path, scene, policy(1))


def test_without_a_quorum_the_entry_stays_durable_and_the_same_bytes_complete_it(tmp_path: Path) -> None:
    async def scene(client: httpx.AsyncClient, mesh: Mesh) -> None:
        mesh.down, mesh.silent = {"w0"}, {"w1"}
        answer = await client.post("/add", content=entry(), headers=AUTH)
        assert answer.status_code == 503
        assert answer.text == (
            "1 of 3 witnesses cosigned (w0 does not answer (ConnectError), w1 did not answer in time); "
            "send the same entry again once they are there\n"
        )
        assert (await client.get("/checkpoint")).status_code == 404
        mesh.down, mesh.silent = set(), set()
        answer = await client.post("/add", content=entry(), headers=AUTH)
        assert parse_proof(answer.content).index == 0
        size = parse_checkpoint(parse_note((await client.get("/checkpoint")).content).text).size
        assert size == 1

    run(tmp_path, scene)


def test_after_a_restart_the_same_bytes_complete_an_entry_that_had_no_quorum(tmp_path: Path) -> None:
    async def alone(client: httpx.AsyncClient, mesh: Mesh) -> None:
        mesh.down = set(COSIGNERS)
        assert (await client.post("/add", content=entry(), headers=AUTH)).status_code == 503

    async def later(client: httpx.AsyncClient, _mesh: Mesh) -> None:
        for version in (2, 1):
            answer = await client.post("/add", content=entry(version), headers=AUTH)
            assert parse_proof(answer.content).index == version - 1

    run(tmp_path, alone)
    run(tmp_path, later)


def test_the_same_bytes_again_need_no_witness(tmp_path: Path) -> None:
    async def scene(client: httpx.AsyncClient, mesh: Mesh) -> None:
        first = await client.post("/add", content=entry(), headers=AUTH)
        asked = len(mesh.requests)
        mesh.down = set(COSIGNERS)
        assert (await client.post("/add", content=entry(), headers=AUTH)).content == first.content
        assert len(mesh.requests) == asked

    run(tmp_path, scene)


def test_a_stricter_policy_has_published_entries_cosigned_anew(tmp_path: Path) -> None:
    async def scene(client: httpx.AsyncClient, _mesh: Mesh) -> None:
        assert (await client.post("/add", content=entry(), headers=AUTH)).status_code == 200

    none = TlogPolicy((Peer(SIGNER.key),))
    run(tmp_path, scene, none)

    async def stricter(client: httpx.AsyncClient, _mesh: Mesh) -> None:
        answer = await client.post("/add", content=entry(), headers=AUTH)
        assert len(parse_proof(answer.content).verify(entry(), policy(3)).cosigned) == 3

    run(tmp_path, stricter, policy(3))


def test_a_witness_that_fell_behind_or_ahead_in_memory_is_found_by_its_409(tmp_path: Path) -> None:
    async def scene(client: httpx.AsyncClient, mesh: Mesh) -> None:
        for version in range(1, 5):
            mesh.down = {"w2"} if version < 4 else set()
            assert (await client.post("/add", content=entry(version), headers=AUTH)).status_code == 200
        olds = [body.split(b"\n")[0] for name, body in mesh.requests if name == "w2"][-2:]
        assert olds == [b"old 3", b"old 0"]

    run(tmp_path, scene, policy(2))


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ((200, b"garbage"), "no cosignature"),
        ((200, b""), "no cosignature"),
        ((200, b"\xe2\x80\x94 someone AAAAAAAA\n"), "no line of its key"),
        ((200, COSIGNERS["w0"].cosign(b"another text\n", 1).line.encode()), "no cosignature"),
        ((200, b"x" * 600_000), "no cosignature"),
        ((409, b"7\n"), "larger tree"),
        ((409, b"0\n"), "keeps changing its mind"),
        ((409, b"junk"), "no cosignature"),
        ((500, b"oops"), "answered 500"),
        ((302, b""), "answered 302"),
    ],
)
def test_a_witness_that_answers_wrongly_does_not_count(tmp_path: Path, says: tuple[int, bytes], reason: str) -> None:
    async def scene(client: httpx.AsyncClient, mesh: Mesh) -> None:
        mesh.says = {"w0": says}
        answer = await client.post("/add", content=entry(), headers=AUTH)
        assert answer.status_code == 503
        assert reason in answer.text
        mesh.says = {}
        assert (await client.post("/add", content=entry(), headers=AUTH)).status_code == 200

    run(tmp_path, scene, policy(3))


def test_a_witness_that_answers_packed_bytes_does_not_count(tmp_path: Path) -> None:
    async def scene(client: httpx.AsyncClient, mesh: Mesh) -> None:
        mesh.says, mesh.with_headers = {"w0": (200, gzip.compress(b"x" * 100_000))}, {"Content-Encoding": "gzip"}
        answer = await client.post("/add", content=entry(), headers=AUTH)
        assert answer.status_code == 503
        assert "packed bytes" in answer.text

    run(tmp_path, scene, policy(3))


def test_adds_at_once_share_batches_and_each_has_its_own_proof(tmp_path: Path) -> None:
    async def scene(client: httpx.AsyncClient, mesh: Mesh) -> None:
        versions = (1, 2, 3, 1, 2, 3, *range(4, 40))
        answers = await asyncio.gather(*(client.post("/add", content=entry(v), headers=AUTH) for v in versions))
        proofs = [parse_proof(a.content) for a in answers]
        for version, proof in zip(versions, proofs, strict=True):
            proof.verify(entry(version), policy())
        assert sorted({p.index for p in proofs}) == list(range(39))
        assert [p.index for p in proofs[:3]] == [p.index for p in proofs[3:6]]
        assert len({body for name, body in mesh.requests if name == "w0"}) <= 5

    run(tmp_path, scene)


def test_in_a_batch_without_a_quorum_what_is_published_already_is_still_answered(tmp_path: Path) -> None:
    async def scene(client: httpx.AsyncClient, mesh: Mesh) -> None:
        assert (await client.post("/add", content=entry(1), headers=AUTH)).status_code == 200
        mesh.down = set(COSIGNERS)
        answers = await asyncio.gather(*(client.post("/add", content=entry(v), headers=AUTH) for v in (2, 1, 3)))
        assert [a.status_code for a in answers] == [503, 200, 503]
        mesh.down = set()
        answers = await asyncio.gather(*(client.post("/add", content=entry(v), headers=AUTH) for v in (3, 2)))
        assert sorted(parse_proof(a.content).index for a in answers) == [1, 2]

    run(tmp_path, scene)


def test_one_who_hangs_up_does_not_take_the_batch_with_him(tmp_path: Path) -> None:
    async def scene(client: httpx.AsyncClient, _mesh: Mesh) -> None:
        asked = [asyncio.create_task(client.post("/add", content=entry(v), headers=AUTH)) for v in range(1, 6)]
        await asyncio.sleep(0)
        asked[0].cancel()
        answers = await asyncio.gather(*asked[1:])
        assert [a.status_code for a in answers] == [200] * 4

    run(tmp_path, scene)


def test_a_log_with_too_many_entries_waiting_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adder, "MOST_WAITING", 3)

    async def scene(client: httpx.AsyncClient, _mesh: Mesh) -> None:
        answers = await asyncio.gather(*(client.post("/add", content=entry(v), headers=AUTH) for v in range(1, 30)))
        told = {a.status_code for a in answers}
        assert told == {200, 503}
        busy = next(a for a in answers if a.status_code == 503)
        assert (busy.headers["retry-after"], busy.text.count("\n")) == ("1", 1)

    run(tmp_path, scene)


def test_a_disk_that_fails_is_told_to_each_of_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(client: httpx.AsyncClient, _mesh: Mesh) -> None:
        def full(*_args: object) -> None:
            raise NotWritable("disk is full")

        monkeypatch.setattr("interlock.transparency.storage.AppendFile.append", full)
        answers = await asyncio.gather(*(client.post("/add", content=entry(v), headers=AUTH) for v in range(1, 5)))
        assert {(a.status_code, a.text) for a in answers} == {(503, "this log is out of order\n")}

    run(tmp_path, scene)


def test_a_witness_with_two_keys_is_asked_once_for_both(tmp_path: Path) -> None:
    pair = [COSIGNERS["w0"], Cosigner("witness.example/w0", MlDsaSigner(44, b"\x10" * 32))]
    peers = {name: Peer(c.key, "http://w0.example/w") for name, c in zip(("old", "new"), pair, strict=True)}
    rule = TlogPolicy((Peer(SIGNER.key),), peers, {"w": Group(2, ("old", "new"))}, "w")

    async def scene(client: httpx.AsyncClient, mesh: Mesh) -> None:
        held = Witness(tmp_path / "pair", pair, {ORIGIN: [SIGNER.key]}, ManualClock())
        mesh.witnesses["w0"] = witness_role.app(held)
        answer = await client.post("/add", content=entry(), headers=AUTH)
        checked = parse_proof(answer.content).verify(entry(), rule)
        assert (sorted(checked.cosigned), list(checked.witnesses)) == (["new", "old"], ["witness.example/w0"])
        assert len(mesh.requests) == 1
        mesh.witnesses["w0"] = mesh.witness("w0")  # it has lost one of its keys
        answer = await client.post("/add", content=entry(2), headers=AUTH)
        assert answer.status_code == 503

    run(tmp_path, scene, rule)


async def until(happened: Callable[[], bool]) -> None:
    for _ in range(500):
        if happened():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen within five seconds")


def test_what_a_crash_left_unpublished_is_published_at_the_start_or_once_the_witnesses_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adder, "RETRY_S", 0.01)
    with open_log(tmp_path / "log", SIGNER) as log:
        log.append([entry()])

    async def main() -> None:
        mesh = Mesh(tmp_path)
        mesh.down = set(COSIGNERS)
        with open_log(tmp_path / "log", SIGNER) as log:
            outward = httpx.AsyncClient(transport=mesh)
            app = log_role.app(log, policy(), tokens=TokenTable(dict), client=outward, witness_timeout_s=PATIENCE_S)
            async with app.router.lifespan_context(app):
                await until(lambda: len(mesh.requests) >= 6)
                assert log.published_size == 0
                mesh.down = set()
                await until(lambda: log.published_size == 1)
            assert outward.is_closed

    asyncio.run(main())


def test_no_error_that_nobody_foresaw_ends_what_keeps_a_log_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(adder, "RETRY_S", 0.01)
    fails = iter((True, True, False))

    async def main() -> None:
        with open_log(tmp_path / "log", SIGNER) as log:
            log.append([entry()])
            sign = log.sign

            def sometimes() -> bytes:
                if next(fails, False):
                    raise RecursionError("nobody foresaw this")
                return sign()

            monkeypatch.setattr(log, "sign", sometimes)
            outward = httpx.AsyncClient(transport=Mesh(tmp_path))
            app = log_role.app(log, policy(), tokens=TokenTable(dict), client=outward, witness_timeout_s=PATIENCE_S)
            async with app.router.lifespan_context(app):
                await until(lambda: log.published_size == 1)

    asyncio.run(main())
    assert caplog.text.count("a fault of interlock: RecursionError") == 2


def test_a_log_whose_disk_fails_says_so_and_shows_no_path(tmp_path: Path) -> None:
    async def scene(client: httpx.AsyncClient, _mesh: Mesh) -> None:
        await client.post("/add", content=entry(), headers=AUTH)
        (tmp_path / "log" / "public" / "tile" / "0" / "000.p" / "1").write_bytes(b"x" * 99)
        answer = await client.get("/" + Tile(0, 0, 1).path)
        assert (answer.status_code, answer.text) == (503, "this log is out of order\n")

    run(tmp_path, scene)


def test_the_witness_speaks_http_as_the_specification_has_it(tmp_path: Path) -> None:
    async def main() -> None:
        app = Mesh(tmp_path).witnesses["w0"]
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://w") as client:
            where = f"/{hashlib.sha256(ORIGIN.encode()).hexdigest()}/checkpoint"
            assert (await client.get(where)).status_code == 404
            with open_log(tmp_path / "log", SIGNER) as log:
                log.append([b"a", b"b"])
                note = log.integrate()
            good = await client.post("/add-checkpoint", content=add_checkpoint_request(0, (), note))
            assert (good.status_code, good.headers["content-type"]) == (200, "text/plain; charset=utf-8")
            conflict = await client.post("/add-checkpoint", content=add_checkpoint_request(0, (), note))
            assert (conflict.status_code, conflict.headers["content-type"], conflict.content) == (
                409,
                "text/x.tlog.size",
                b"2\n",
            )
            assert (await client.get(where)).content == note + good.content
            assert (await client.post("/add-checkpoint", content=b"x" * (MAX_REQUEST + 1))).status_code == 413
            assert (await client.post("/add-checkpoint", content=b"x")).status_code == 400
            (state,) = (tmp_path / "w0").glob("*.json")
            state.write_bytes(b"{}")
            broken = await client.post("/add-checkpoint", content=add_checkpoint_request(2, (), note))
            assert (broken.status_code, broken.text) == (503, "this witness is out of order\n")

    asyncio.run(main())


def _poster(status: int, said: bytes, limit: int = 1000) -> tuple[HttpPoster, list[httpx.Request]]:
    asked: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(status, content=said)

    client = httpx.Client(transport=httpx.MockTransport(handle))
    return HttpPoster("http://log/add", max_length=limit, token=TOKEN, client=client), asked


def test_a_poster_sends_bytes_and_token_and_brings_the_answer() -> None:
    post, asked = _poster(200, b"proof")
    assert post(b"entry") == b"proof"
    assert (asked[0].content, asked[0].headers["authorization"]) == (b"entry", f"Bearer {TOKEN}")


def test_a_poster_tells_the_first_line_of_another_answer_and_never_the_token() -> None:
    post, _ = _poster(503, b"1 of 3 witnesses cosigned\nmore\n")
    with pytest.raises(Unreachable) as caught:
        post(b"entry")
    assert str(caught.value) == "http://log/add: answered HTTP 503 (1 of 3 witnesses cosigned)"
    assert TOKEN not in repr(post)
    with pytest.raises(TooLarge):
        _poster(200, b"x" * 1001)[0](b"entry")
