"""A repository that another tool made (tuf-on-ci, from tuf-conformance), followed by our client at its own time."""

from __future__ import annotations

import datetime as _dt
from pathlib import Path
from typing import Final

import pytest

from interlock.base.fetch import DirectoryFetcher, NotFound, TooLarge
from interlock.commons.pack import sha256_hex
from interlock.commons.updater import MetadataRefused, Stale, UntrustedRoot, pinned_root, refreshed

FOLDER: Final = Path(__file__).parents[2] / ".." / "shared" / "vectors" / "tuf-static"
REPOSITORIES: Final = ("tuf-on-ci-0.11",)
LEFT_OUT: Final = {
    # what no TUF client reads: pages for people, and the suite's own notes
    "README.md": "a note",
    "metadata/index.html": "a page for people",
    "metadata/index.md": "a page for people",
}
LIMIT: Final = 1 << 20

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="../shared/vectors/tuf-static is not here")


def _time(repository: Path) -> int:
    """The time at which the suite runs the repository, in microseconds."""
    moment = _dt.datetime.fromisoformat((repository / "faketime").read_text().strip())
    return int(moment.timestamp()) * 1_000_000


class Noting(DirectoryFetcher):
    """A directory that notes which of its files were read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.read: set[str] = set()

    def fetch(self, path: str, *, max_length: int) -> bytes:
        data = super().fetch(path, max_length=max_length)
        self.read.add(path)
        return data


def test_every_repository_of_the_folder_is_followed() -> None:
    assert tuple(sorted(p.name for p in FOLDER.iterdir())) == REPOSITORIES


@pytest.mark.parametrize("name", REPOSITORIES)
def test_the_target_is_found_through_its_delegation_and_every_file_is_read(name: str, tmp_path: Path) -> None:
    repository = FOLDER / name
    fetcher = Noting(repository)
    root = (repository / "initial_root.json").read_bytes()
    path = (repository / "targetpath").read_text().strip()
    with refreshed(tmp_path, fetcher, bootstrap=root, now_us=_time(repository)) as view:
        data = view.target(path, LIMIT)
        with pytest.raises(TooLarge):
            view.target(path, len(data) - 1)
        with pytest.raises(NotFound):
            view.target("no/such/target", LIMIT)
    assert sha256_hex(data) in {p.name.split(".")[0] for p in (repository / "targets").rglob("*.artifact")}
    # its first root is the one it starts from, so that one is read by its pin
    pinned = pinned_root(sha256_hex(root), fetcher=fetcher)
    assert pinned == root
    served = {str(p.relative_to(repository)) for p in repository.rglob("*") if p.is_file()}
    assert served - fetcher.read - set(LEFT_OUT) == {"initial_root.json", "targetpath", "faketime"}


@pytest.mark.parametrize("name", REPOSITORIES)
def test_a_second_poll_reads_the_timestamp_and_nothing_else(name: str, tmp_path: Path) -> None:
    repository = FOLDER / name
    root = (repository / "initial_root.json").read_bytes()
    with refreshed(tmp_path, DirectoryFetcher(repository), bootstrap=root, now_us=_time(repository)):
        pass
    fetcher = Noting(repository)
    with refreshed(tmp_path, fetcher, bootstrap=root, now_us=_time(repository)):
        pass
    assert fetcher.read == {"metadata/timestamp.json"}


@pytest.mark.parametrize("name", REPOSITORIES)
def test_after_its_time_it_is_stale(name: str, tmp_path: Path) -> None:
    repository = FOLDER / name
    root = (repository / "initial_root.json").read_bytes()
    far = _time(repository) + 50 * 365 * 86_400 * 1_000_000
    with pytest.raises(Stale), refreshed(tmp_path, DirectoryFetcher(repository), bootstrap=root, now_us=far):
        pass


@pytest.mark.parametrize("name", REPOSITORIES)
def test_it_is_not_followed_from_another_root(name: str, tmp_path: Path) -> None:
    repository = FOLDER / name
    with pytest.raises(UntrustedRoot):
        pinned_root("0" * 64, fetcher=DirectoryFetcher(repository))
    broken = (repository / "initial_root.json").read_bytes().replace(b'"version": 1', b'"version": 2')
    now = _time(repository)
    with (
        pytest.raises(MetadataRefused),
        refreshed(tmp_path, DirectoryFetcher(repository), bootstrap=broken, now_us=now),
    ):
        pass
