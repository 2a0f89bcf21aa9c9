"""Member keys and counts in a commons and its log, an organisation's nodes in one report, and the commands."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.clock import ManualClock, SystemClock
from interlock.base.codec import Malformed
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE, InterlockError
from interlock.base.fetch import DirectoryFetcher, Fetcher, NotFound
from interlock.base.files import BadState, replace
from interlock.base.keys import Ed25519Signer
from interlock.base.primitives import BadSignature
from interlock.base.settings import BadConfig
from interlock.commons.enrolment import dump_enrolment
from interlock.commons.indicators import BadCatalog
from interlock.commons.memberfiles import demand_issuer_apart, member_file
from interlock.commons.membership import BLIND, CERTIFICATE, MemberKeys, build_member_keys, parse_member_keys
from interlock.commons.monitor import Monitor
from interlock.commons.operators import OneHand, Operators, parse_operators
from interlock.commons.pins import init_node
from interlock.commons.succession import dump_succession
from interlock.dap.task import Task, new_configuration, task_of
from interlock.dap.taskfile import dump_client_task
from interlock.node.cli.main import main
from interlock.node.config import serve_config, settings_of
from interlock.node.reporter import keep_task
from interlock.node.roles.admission import Admission
from interlock.node.roles.issuer_http import app
from interlock.node.roles.ledger import ledger
from interlock.node.roles.observe import kept_catalogs
from interlock.node.roles.report import Sent, agree, close_epochs
from interlock.node.roles.rollup import NotGathered, dump_tally, gather, parse_tally
from interlock.node.storage.node import open_store
from interlock.node.wiring.issuer import issuer_of
from interlock.node.wiring.roles import role_app
from interlock.transparency.entry import known_entry
from tests.unit.commons_world import World as Commons
from tests.unit.commons_world import log_policy, pack, seed, world
from tests.unit.dap_http import free_socket, serving
from tests.unit.dap_world import PRECISION, VDAF_CONFIG, task
from tests.unit.membership_world import NAME, IssuerWorld, Organisation, membership, token_key
from tests.unit.report_world import CountedWorld, Member, Publishing, catalog

EPOCH = 500_000


@contextlib.contextmanager
def issued(folder: Path, commons: Commons) -> Iterator[IssuerWorld]:
    (folder / "issuer").mkdir()
    found = IssuerWorld(folder / "issuer", commons.clock)
    yield found
    found.close()


def published(commons: Commons, *files: bytes) -> None:
    commons.publisher.publish_members([member_file(data, where="x") for data in files])


# in the commons


def test_a_member_reads_the_keys_that_the_commons_signed_and_logged(tmp_path: Path) -> None:
    with world(tmp_path) as commons, issued(tmp_path, commons) as issuer:
        keys = [issuer.open_epoch(EPOCH + i) for i in range(3)]
        published(commons, *(k.data for k in keys))
        member = commons.member("acme")
        assert [member.member_keys(NAME, k.epoch) for k in keys] == keys
        with pytest.raises(NotFound):
            member.member_keys(NAME, EPOCH + 3)
        entries = [known_entry(data) for data in commons.log.calls]
        told = [(e.name, e.version, e.ring) for e in entries if e.type == "task"]
        assert told == [(NAME, EPOCH + i, "members") for i in range(3)]


def test_all_keys_of_one_publish_stand_in_one_snapshot(tmp_path: Path) -> None:
    with world(tmp_path) as commons, issued(tmp_path, commons) as issuer:
        before = len([d for d in commons.log.calls if known_entry(d).type == "snapshot"])
        published(commons, *(issuer.open_epoch(EPOCH + i).data for i in range(5)))
        assert len([d for d in commons.log.calls if known_entry(d).type == "snapshot"]) == before + 1


def test_an_epochs_keys_never_change(tmp_path: Path) -> None:
    with world(tmp_path) as commons, issued(tmp_path, commons) as issuer:
        first = issuer.open_epoch(EPOCH)
        published(commons, first.data)
        published(commons, first.data)  # the same publish again: nothing new
        other = issuer.open_epoch(EPOCH, key=1)
        with pytest.raises(BadCatalog, match="never changes"):
            published(commons, other.data)
        assert commons.member("acme").member_keys(NAME, EPOCH) == first


def test_a_final_count_is_published_beside_the_keys(tmp_path: Path) -> None:
    with world(tmp_path) as commons, issued(tmp_path, commons) as issuer:
        issuer.open_epoch(EPOCH)
        commons.clock.advance(2 * 86_400)
        count = issuer.issuer.count(NAME, EPOCH)
        published(commons, count)
        entry = known_entry([d for d in commons.log.calls if known_entry(d).type == "task"][-1])
        assert (entry.ring, entry.version) == ("member-counts", EPOCH)


def test_keys_that_the_commons_did_not_log_are_refused(tmp_path: Path) -> None:
    """Whoever has the tasks role's key could else show one victim keys of its own."""
    with world(tmp_path) as commons, issued(tmp_path, commons) as issuer:
        published(commons, issuer.open_epoch(EPOCH).data)
        targets = commons.public / "targets" / "members" / NAME
        (proof,) = targets.glob(f"*.{EPOCH}.tlog-proof")
        proof.write_bytes(b"")
        with pytest.raises(InterlockError) as refused:
            commons.member("acme").member_keys(NAME, EPOCH)
        assert refused.value.code in ("metadata-refused", "not-logged")


def test_a_monitor_finds_keys_and_counts_behind_their_entries_and_misses_what_is_gone(tmp_path: Path) -> None:
    with world(tmp_path) as commons, issued(tmp_path, commons) as issuer:
        commons.publisher.publish(pack(1), "canary")
        published(commons, *(issuer.open_epoch(EPOCH + i).data for i in range(2)))
        commons.clock.advance(2 * 86_400)
        published(commons, issuer.issuer.count(NAME, EPOCH))
        mirrors = {name: commons.mirror(name) for name in ("east", "west")}
        for mirror in mirrors.values():
            mirror.copy()
        pins = init_node(tmp_path / "monitor-pins", log_policy=log_policy(), root=commons.root)
        places: dict[str, Fetcher] = {name: DirectoryFetcher(m.public) for name, m in mirrors.items()}
        with contextlib.closing(Monitor(tmp_path / "monitor", pins, places, commons.clock)) as monitor:
            assert monitor.look().open == ()
            (gone,) = (mirrors["west"].public / "targets" / "members" / NAME).glob(f"*.{EPOCH}.count.json")
            gone.unlink()
            commons.clock.advance(2 * 86_400)
            assert {alarm.kind for alarm in monitor.look().open} >= {"missing"}


def keys_by(issuer: Ed25519Signer, epoch: int, *chain: bytes) -> bytes:
    """Member keys of an epoch in an issuer's word, with what shows which keys it followed."""
    values = {"task": NAME, "epoch": epoch, "backend": CERTIFICATE, "operator": "enrol.example", "closes_at": 1}
    return build_member_keys(issuer, **values, token_key=b"", follows=b"\n".join(chain)).data  # type: ignore[arg-type]


def test_whoever_signs_for_tasks_alone_puts_no_issuer_in_anothers_place_without_an_alarm(tmp_path: Path) -> None:
    first, second, third, thief = (seed(name) for name in ("issuer", "second", "third", "thief"))
    one, two = dump_succession(first, second.verifier, 1), dump_succession(second, third.verifier, 2)
    with world(tmp_path) as commons:
        mirrors = {name: commons.mirror(name) for name in ("east", "west")}
        pins = init_node(tmp_path / "monitor-pins", log_policy=log_policy(), root=commons.root)
        places: dict[str, Fetcher] = {name: DirectoryFetcher(m.public) for name, m in mirrors.items()}
        with contextlib.closing(Monitor(tmp_path / "monitor", pins, places, commons.clock)) as monitor:

            def alarms(*files: bytes) -> list[str]:
                published(commons, *files)
                for mirror in mirrors.values():
                    mirror.copy()
                return [f"{alarm.kind} {alarm.where}" for alarm in monitor.look().new]

            assert alarms(keys_by(first, EPOCH), keys_by(first, EPOCH + 1)) == []
            assert alarms(keys_by(second, EPOCH + 2, one), keys_by(first, EPOCH + 3)) == []  # opened before, both good
            assert alarms(keys_by(third, EPOCH + 4, one, two)) == []
            stolen = f"issuer task {NAME}: {thief.verifier.text}"
            assert alarms(keys_by(thief, EPOCH + 5)) == [stolen]
            assert alarms(keys_by(thief, EPOCH + 6)) == [], "said once, and it stays open"
            own = dump_succession(thief, seed("thief 2").verifier, 3)  # its own chain leads to nobody known
            assert alarms(keys_by(seed("thief 2"), EPOCH + 7, own)) == [
                f"issuer task {NAME}: {seed('thief 2').verifier.text}"
            ]
            assert sum(alarm.kind == "issuer" for alarm in monitor.look().open) == 2


def test_a_chain_that_the_issuers_before_did_not_sign_is_no_chain() -> None:
    first, second, third = (seed(name) for name in ("issuer", "second", "third"))
    one, other = dump_succession(first, second.verifier, 1), dump_succession(second, third.verifier, 2)
    assert [k.text for k in parse_member_keys(keys_by(second, EPOCH, one), where="x").former] == [first.verifier.text]
    forged = one.replace(second.verifier.text.encode(), third.verifier.text.encode())
    for signer, chain in (
        (third, (one,)),
        (third, (other, one)),
        (third, (forged,)),
        (second, (b"",)),
        (first, (one,)),
    ):
        with pytest.raises((Malformed, BadSignature)):
            keys_by(signer, EPOCH, *chain) if chain != (b"",) else keys_by(signer, EPOCH, b"", b"")


# who runs what


def listed(*, issuer_of: str) -> Operators:
    rows = [
        {"name": "l", "organisation": "Left", "roles": {"leader": ["https://leader.test/dap"]}},
        {"name": "h", "organisation": "Right", "roles": {"helper": ["https://helper.test/dap"]}},
        {"name": "i", "organisation": issuer_of, "roles": {"issuer": [seed("issuer").verifier.text]}},
    ]
    body = {"format": "interlock-operators", "v": 1, "version": 1, "operators": rows}
    return parse_operators(json.dumps(body).encode(), where="x")


def test_an_issuer_that_runs_an_aggregator_too_gets_no_request(tmp_path: Path) -> None:
    issuer = IssuerWorld(tmp_path, ManualClock())
    issuer.open_epoch(EPOCH)
    acme = Organisation("acme", tmp_path / "acme", issuer)
    counted = task(membership=membership())
    for body in ("Left", "RIGHT"):
        acme.credentials._operators = lambda body=body: listed(issuer_of=body)  # type: ignore[misc]
        with pytest.raises(OneHand, match="whose reports are whose"):
            acme.proof(counted, EPOCH)
    acme.credentials._operators = lambda: listed(issuer_of="Somebody Else")
    assert acme.proof(counted, EPOCH).signature
    with pytest.raises(OneHand, match="no operator on the commons' list"):
        demand_issuer_apart(listed(issuer_of="Third"), seed("another").verifier, "", "")
    acme.close()
    issuer.close()


# one organisation, one report


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    counted = catalog()
    found = Member(tmp_path / "reporter", CountedWorld(tmp_path, counted), counted)
    found.agree()
    yield found
    found.stop()
    found.world.close()


def another_node(member: Member, name: str, *places: int) -> Path:
    """A node of the same organisation that counts and does not report."""
    home = member.home.with_name(name)
    node = Member(home, member.world, member.catalog)
    node.agree()
    node.blocked(*places)
    node.stop()
    return home


def brought(member: Member, *nodes: Path) -> int:
    world = member.world
    start = world.task.start_us(world.task.time_of(world.clock.now_us()) - 1)
    return gather(member.store, member.home, member.catalog.task, nodes, [start], world.clock.now_us())


def test_a_place_that_any_node_saw_is_in_the_one_report(member: Member) -> None:
    member.blocked(1)
    nodes = (another_node(member, "second", 2, 3), another_node(member, "third", 3), another_node(member, "idle"))
    member.world.clock.advance(PRECISION)
    assert brought(member, *nodes) == 2
    assert brought(member, *nodes) == 0  # as often as one likes
    start = member.world.task.start_us(member.world.task.time_of(member.world.clock.now_us()) - 1)
    assert member.store.bits(member.catalog.task, member.catalog.digest, start) == {1, 2, 3}
    assert member.close() == 1
    assert brought(member, *nodes) == 0  # the epoch is reported


def test_a_tally_file_brings_the_places_of_a_node_elsewhere(member: Member, tmp_path: Path) -> None:
    second = another_node(member, "second", 4, 7)
    member.world.clock.advance(PRECISION)
    kept = kept_catalogs(second)[member.catalog.task]
    with contextlib.closing(open_store(second)) as store:
        places = store.places_by_epoch(kept.catalog.task, kept.catalog.digest)
    data = dump_tally(kept, places, member.world.clock.now_us())
    assert parse_tally(data, kept, where="x").epochs == places
    replace(tmp_path / "second.tally", data)
    assert brought(member, tmp_path / "second.tally") == 2


def test_a_tally_that_was_written_before_the_epoch_ended_holds_the_report_back(member: Member, tmp_path: Path) -> None:
    kept = kept_catalogs(member.home)[member.catalog.task]
    replace(tmp_path / "early.tally", dump_tally(kept, {}, member.world.clock.now_us()))
    member.world.clock.advance(PRECISION)
    with pytest.raises(NotGathered, match="before the epoch ended"):
        brought(member, tmp_path / "early.tally")


def test_a_node_that_cannot_be_read_holds_the_report_back(member: Member, tmp_path: Path) -> None:
    member.world.clock.advance(PRECISION)
    (tmp_path / "stranger").mkdir()
    for node in (tmp_path / "nowhere", tmp_path / "stranger"):
        with pytest.raises(NotGathered):
            brought(member, node)


@pytest.mark.parametrize(
    "change",
    [
        {"task": "other"},
        {"catalog": "00" * 32},
        {"at": "x"},
        {"epochs": []},
        {"epochs": {"7": [1]}},
        {"epochs": {"0": [99]}},
        {"epochs": {"0": [1], "00": []}},
        {"epochs": {"9" * 5000: [1]}},
    ],
)
def test_a_tally_of_another_form_is_refused(member: Member, change: dict[str, object]) -> None:
    kept = kept_catalogs(member.home)[member.catalog.task]
    body = json.loads(dump_tally(kept, {0: frozenset({1})}, 5)) | change
    with pytest.raises(BadState):
        parse_tally(json.dumps(body).encode(), kept, where="x")


# with a report


def test_a_report_waits_for_its_proof_and_says_in_the_ledger_how_it_was_shown(tmp_path: Path) -> None:
    counted = catalog()
    world = CountedWorld(tmp_path, counted, membership=membership())
    issuer = IssuerWorld(tmp_path, world.clock)
    world._admit = Admission(issuer.keys_of, "shares.example", world.clock)
    world.restart()
    node = Member(tmp_path / "acme", world, counted)
    node.agree()
    acme = Organisation("acme", tmp_path / "acme", issuer)
    node.blocked(3)
    epoch = world.task.time_of(world.clock.now_us())
    world.clock.advance(PRECISION)

    def close() -> int:
        return close_epochs(node.home, node.store, node.sealer(), world.clock)

    node.rights = lambda e: acme.credentials.held(world.task, e)

    assert close() == 0
    issuer.open_epoch(epoch)
    proof = acme.proof(world.task, epoch)
    assert close() == 1
    assert acme.credentials.held(world.task, epoch) is not None, "it may have to be sealed anew"
    node.line.member = None
    assert node.send() == Sent(sent=1)
    assert acme.credentials.held(world.task, epoch) is None, "used up with the report"
    assert node.line.uploaded()[0].metadata.report_id == proof.report_id
    (row,) = ledger(node.store)
    assert (row.membership, "nobody learns whose report" in row.note) == (BLIND, True)
    acme.close()
    node.stop()
    issuer.close()
    world.close()


# from the command line


def command(*args: object) -> int:
    return main(["mesh", *map(str, args)])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An issuer's folder, and a task that asks for blind tokens."""
    assert command("setup", "--role", "issuer", "--dir", tmp_path / "issuer", "--operator", "enrol.example") == EXIT_OK
    configuration = new_configuration(
        catalog_digest=bytes.fromhex(catalog().digest),
        leader_url="https://leader.test/dap",
        helper_url="https://helper.test/dap",
        time_precision=86_400,
        min_batch_size=10,
        vdaf_config=VDAF_CONFIG,
        membership=membership(),
    )
    (tmp_path / "task.json").write_bytes(dump_client_task(task_of(configuration)))
    return tmp_path


def test_the_issuers_operator_invites_lists_and_revokes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    issuer = place / "issuer"
    assert command("members", "list", "--dir", issuer) == EXIT_OK
    assert "nobody is enrolled" in capsys.readouterr().out
    assert command("members", "invite", "--dir", issuer, "--out", place / "code") == EXIT_OK
    assert (place / "code").stat().st_mode & 0o077 == 0
    assert command("members", "invite", "--dir", issuer, "--out", place / "code") == EXIT_USAGE
    config = serve_config(settings_of(str(issuer / "interlock.toml")))
    with issuer_of(config, SystemClock()) as opened:
        code = (place / "code").read_text()
        opened.process_enrolment(dump_enrolment(seed("acme"), "acme", code, opened.verifier))
        opened.process_enrolment(dump_enrolment(seed("globex"), "globex", "", opened.verifier))
    capsys.readouterr()
    assert command("members", "list", "--dir", issuer, "--json") == EXIT_OK
    rows = json.loads(capsys.readouterr().out)["members"]
    assert [(row["organisation"], row["state"]) for row in rows] == [("acme", "enrolled"), ("globex", "pending")]
    assert command("members", "approve", "--dir", issuer, "globex") == EXIT_OK
    assert command("members", "revoke", "--dir", issuer, "acme") == EXIT_OK
    assert command("members", "revoke", "--dir", issuer, "acme") == EXIT_REFUSED
    assert command("members", "list", "--dir", place) == EXIT_USAGE


def test_keys_are_made_as_files_and_the_same_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.node.roles.issuer.new_private_key", lambda bits: token_key())
    made = ("members", "keys", "--dir", place / "issuer", "--task", place / "task.json", "--first", 700, "--epochs", 2)
    assert command(*made, "--out", place / "keys") == EXIT_OK
    files = {path.name: path.read_bytes() for path in (place / "keys").iterdir()}
    assert sorted(files) == [f"{NAME}.700.json", f"{NAME}.701.json"]
    keys = parse_member_keys(files[f"{NAME}.700.json"], where="x")
    assert (keys.operator, keys.closes_at) == ("enrol.example", 702 * 86_400_000_000)
    assert command(*made, "--out", place / "again") == EXIT_OK
    assert {path.name: path.read_bytes() for path in (place / "again").iterdir()} == files


def test_an_issuer_makes_no_keys_for_its_own_aggregators(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("interlock.node.roles.issuer.new_private_key", lambda bits: token_key())
    config = serve_config(settings_of(str(place / "issuer" / "interlock.toml")))
    with issuer_of(config, SystemClock()) as opened:
        key = opened.verifier.text
    (place / "operators.json").write_bytes(
        listed(issuer_of="Left").data.replace(seed("issuer").verifier.text.encode(), key.encode())
    )
    made = ("members", "keys", "--dir", place / "issuer", "--task", place / "task.json", "--out", place / "keys")
    assert command(*made, "--operators", place / "operators.json") == EXIT_REFUSED
    assert "runs the leader and the issuer" in capsys.readouterr().err
    assert not (place / "keys").exists()


@pytest.mark.parametrize("other", ["dap-leader", "dap-helper"])
def test_no_folder_is_both_an_issuers_and_an_aggregators(place: Path, other: str) -> None:
    assert command("setup", "--role", other, "--dir", place / "issuer") == EXIT_USAGE
    assert command("setup", "--role", other, "--dir", place / "shares") == EXIT_OK
    assert command("setup", "--role", "issuer", "--dir", place / "shares", "--operator", "x") == EXIT_USAGE
    (place / "issuer" / "hpke.json").write_bytes((place / "shares" / "hpke.json").read_bytes())
    config = serve_config(settings_of(str(place / "issuer" / "interlock.toml")))
    with pytest.raises(BadConfig, match="aggregator's or a collector's too"), issuer_of(config, SystemClock()):
        pass
    (place / "shares" / "issuer.key").write_bytes((place / "issuer" / "issuer.key").read_bytes())
    (place / "shares" / "helper-token").write_text("a0" * 16)
    (place / "shares" / "helper-token").chmod(0o600)
    with (
        pytest.raises(BadConfig, match="issuer's too"),
        role_app(other, serve_config(settings_of(str(place / "shares" / "interlock.toml"))), SystemClock()),
    ):
        pass


def test_no_folder_is_both_a_mirrors_and_an_aggregators(place: Path) -> None:
    (place / "policy.txt").write_bytes(log_policy())
    with world(place / "mesh") as commons:
        (place / "root.json").write_bytes(commons.root)
    pins = ("--log-policy", place / "policy.txt", "--root", place / "root.json", "--upstream", "https://mirror.test")
    shares = ("setup", "--role", "dap-helper", "--dir", place / "shares", *pins)
    assert command(*shares) == EXIT_USAGE  # no operator is named
    assert not (place / "shares").exists()
    assert command(*shares, "--operator", "right.example") == EXIT_OK
    assert command(*shares, "--operator", "right.example") == EXIT_OK  # and again, with its own pins
    mirror = ("setup", "--role", "mirror", *pins, "--log-url", "https://log.test")
    assert command(*mirror, "--dir", place / "shares") == EXIT_USAGE
    assert command(*mirror, "--dir", place / "mirror") == EXIT_OK
    assert command("setup", "--role", "dap-helper", "--dir", place / "mirror") == EXIT_USAGE


def test_an_issuer_without_an_operator_is_not_set_up(tmp_path: Path) -> None:
    assert command("setup", "--role", "issuer", "--dir", tmp_path / "issuer") == EXIT_USAGE
    assert not (tmp_path / "issuer").exists()


def test_an_organisation_joins_fetches_and_audits_over_http(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("interlock.node.roles.issuer.new_private_key", lambda bits: token_key())
    issuer, sock = place / "issuer", free_socket()
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    epoch = task_of(_configuration(place)).time_of(SystemClock().now_us())
    command("members", "invite", "--dir", issuer, "--organisation", "acme", "--out", place / "code")
    command("members", "keys", "--dir", issuer, "--task", place / "task.json", "--epochs", 1, "--out", place / "keys")
    config = serve_config(settings_of(str(issuer / "interlock.toml")))
    with world(tmp_path / "mesh") as commons, issuer_of(config, SystemClock()) as opened, serving(app(opened), sock):
        monkeypatch.setattr("interlock.node.cli.mesh_members.publisher_of", lambda config, clock: commons.publisher)
        (keys,) = (place / "keys").iterdir()
        assert command("members", "publish", keys, "--dir", tmp_path / "mesh" / "commons") == EXIT_OK
        held = parse_member_keys(keys.read_bytes(), where="x")
        home, settings = place / "acme", place / "acme.toml"
        settings.write_text(
            f'[mesh]\nhome = "{home}"\norganisation = "acme"\ncommons = "https://mirror.test"\n'
            f'[report]\ntask = "{place}/task.json"\n'
        )
        named = ("--config", settings)
        joining = ("members", "join", "--issuer", url, "--issuer-key", opened.verifier.text, *named)
        assert command(*joining) == EXIT_REFUSED
        assert "waits" in capsys.readouterr().out
        assert command(*joining, "--invite", place / "code") == EXIT_OK
        agree_to(home, place)
        for module in ("interlock.node.reporter", "interlock.node.cli.mesh_node"):
            monkeypatch.setattr(f"{module}.Subscriber", lambda *args: Published(task_of(_configuration(place)), held))
        monkeypatch.setattr("interlock.node.cli.mesh_node.read_pins", lambda home: None)
        assert command("members", "token", *named) == EXIT_OK
        assert f"1 epochs: {epoch} to {epoch}" in capsys.readouterr().out
        config_of_it = task_of(_configuration(place)).config
        of_another_catalog = dataclasses.replace(config_of_it, task_info=config_of_it.task_info[:-1] + b"?")
        keep_task(home, task_of(of_another_catalog.encode()))  # which nobody agreed to, or which has ended
        assert command("members", "token", *named) == EXIT_OK
        said = capsys.readouterr()
        assert f"1 epochs: {epoch} to {epoch}" in said.out
        assert "was not consented to" in said.err
        assert command("members", "count", "--dir", issuer, NAME, epoch, "--out", place / "count") == EXIT_OK
        assert "1 tokens to 1 organisations; it may still grow" in capsys.readouterr().out
        assert command("members", "publish", place / "count", "--dir", place) == EXIT_REFUSED
        audit = ("members", "audit", NAME, epoch, *named)
        assert command(*audit, "--reports", 1, "--json") == EXIT_OK
        capsys.readouterr()
        assert command(*audit, "--reports", 2) == EXIT_REFUSED
        assert "2 reports were collected, and 1 credentials given out" in capsys.readouterr().err
        command("members", "revoke", "--dir", issuer, "acme")
        assert command(*joining) == EXIT_REFUSED
        assert command("tally", NAME, *named, "--out", place / "acme.tally") == EXIT_OK
        assert command("tally", "nothing", *named, "--out", place / "acme.tally") == EXIT_USAGE


class Published(Publishing):
    """A subscriber to a commons that published a task and one epoch's keys."""

    def __init__(self, task: Task, keys: MemberKeys) -> None:
        super().__init__(task)
        self.keys = keys

    def member_keys(self, name: str, epoch: int) -> MemberKeys:
        if (name, epoch) != (self.keys.task, self.keys.epoch):
            raise NotFound("is not there", where=f"{name} {epoch}")
        return self.keys


def agree_to(home: Path, place: Path) -> None:
    with contextlib.closing(open_store(home)) as store:
        agree(home, store, task_of(_configuration(place)), catalog(), SystemClock().now_us())


def _configuration(place: Path) -> bytes:
    return bytes.fromhex(json.loads((place / "task.json").read_text())["configuration"])
