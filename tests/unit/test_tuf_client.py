"""interlock-tuf-client: the command line that tuf-conformance asks for, over the client that nodes use.

The suite itself runs by hand from a fetched copy: pytest tuf_conformance --entrypoint interlock-tuf-client
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from interlock.commons.layout import channel_path
from interlock.node.cli import tuf_client
from interlock.node.cli.tuf_client import main
from tests.unit.commons_world import World, pack, world

CHANNEL = channel_path("stable")


@pytest.fixture
def commons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with world(tmp_path) as made:
        monkeypatch.setattr(tuf_client, "SystemClock", lambda: made.clock)
        made.publisher.publish(pack(), "stable")
        yield made


class Client:
    def __init__(self, commons: World) -> None:
        self.metadata = commons.home / "client"
        self.targets = commons.home / "downloaded"
        self.targets.mkdir()
        self._public = commons.public
        self.root = commons.home / "root.json"
        self.root.write_bytes(commons.root)

    def init(self) -> int:
        return main(["--metadata-dir", str(self.metadata), "init", str(self.root)])

    def refresh(self) -> int:
        return main([*self._places(), "refresh"])

    def download(self, *names: str) -> int:
        named = [argument for name in names for argument in ("--target-name", name)]
        base = f"file://{self._public}/targets"
        return main([*self._places(), *named, "--target-base-url", base, "--target-dir", str(self.targets), "download"])

    def versions(self) -> dict[str, int]:
        files = self.metadata.glob("*.json")
        return {p.stem: json.loads(p.read_text())["signed"]["version"] for p in files}

    def _places(self) -> list[str]:
        return ["--metadata-dir", str(self.metadata), "--metadata-url", f"file://{self._public}/metadata"]


def test_a_root_is_trusted_without_asking_the_network(commons: World) -> None:
    client = Client(commons)
    assert client.init() == 0
    assert client.versions() == {"root": 1}


def test_a_file_that_is_no_root_is_not_trusted_and_leaves_the_root_that_is(
    commons: World, capsys: pytest.CaptureFixture[str]
) -> None:
    client = Client(commons)
    assert client.init() == 0
    for data in (b"no root", (commons.public / "metadata" / "1.targets.json").read_bytes()):
        client.root.write_bytes(data)
        assert client.init() == 1
    assert "is not root metadata" in capsys.readouterr().err
    assert (client.versions(), client.refresh()) == ({"root": 1}, 0)


def test_a_refresh_leaves_the_trusted_metadata_under_unversioned_names(commons: World) -> None:
    client = Client(commons)
    assert (client.init(), client.refresh()) == (0, 0)
    found = client.versions()
    assert set(found) == {"root", "timestamp", "snapshot", "targets"}
    assert found["snapshot"] > 1


def test_targets_are_downloaded_once_and_again_only_when_they_changed(commons: World) -> None:
    client = Client(commons)
    assert (client.init(), client.download(CHANNEL)) == (0, 0)
    file = client.targets / quote(CHANNEL, "")
    first, seen = file.read_bytes(), file.stat().st_mtime_ns
    assert client.download(CHANNEL) == 0
    assert file.stat().st_mtime_ns == seen
    commons.publisher.publish(pack(2), "stable")
    assert client.download(CHANNEL) == 0
    assert b'"version":2' in file.read_bytes() != first


def test_what_is_refused_gives_one_line_and_one(commons: World, capsys: pytest.CaptureFixture[str]) -> None:
    client = Client(commons)
    assert client.refresh() == 1
    assert client.init() == 0
    assert client.download("no/such/target") == 1
    assert client.download() == 1
    assert main(["--metadata-dir", str(client.metadata), "refresh"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert lines[0].endswith("trusts no root yet; run init ROOT first")
    assert all(line.startswith("interlock-tuf-client: ") for line in lines)
