"""The node's sections of the one TOML file: defaults, places, and what is refused by name."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.base.settings import BadConfig
from interlock.node.config import ReportConfig, mesh_config, report_config, serve_config, settings_of, toml_text


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "interlock.toml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[mesh]\nhomes = 'x'\n", ("[mesh] homes", "known here: commons, home")),
        ("[serve]\nport = 1\n", ("[serve] port", "known here: dir")),
        ("[report]\ntasks = 'x'\n", ("[report] tasks",)),
        ("[guard]\npolicies = 'x'\n", ("[guard] policies",)),
        ("[meshes]\n", ("meshes", "known: approvals, guard, mesh")),
        ("mesh = 1\n", ("mesh", "is not a section")),
        ("[mesh]\nhome = 1\n", ("[mesh] home", "wrong type")),
        ("[serve]\npoll_seconds = true\n", ("poll_seconds", "wrong type")),
        ("[mesh]\nhome = 'x'\nhome = 'y'\n", ("is not TOML",)),
        ("[mesh\n", ("is not TOML",)),
    ],
)
def test_a_setting_that_nobody_knows_is_refused_by_name(tmp_path: Path, text: str, names: tuple[str, ...]) -> None:
    with pytest.raises(BadConfig) as caught:
        settings_of(written(tmp_path, text))
    assert all(name in str(caught.value) for name in names)
    assert str(tmp_path) in str(caught.value)


def test_a_bad_section_is_found_by_commands_that_do_not_use_it(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="lock_url"):
        mesh_config(settings_of(written(tmp_path, "[mesh]\nhome = 'x'\n[serve]\nlock_url = 'x'\n")))


def test_paths_stand_beside_the_file_that_names_them(tmp_path: Path) -> None:
    settings = settings_of(
        written(tmp_path, "[mesh]\nhome = 'node'\n[report]\ntask = 't'\ntoken = '/k'\n[serve]\ndir = 'log'\n")
    )
    assert mesh_config(settings).home == tmp_path / "node"
    assert serve_config(settings).directory == tmp_path / "log"
    reporting = report_config(settings)
    assert (reporting.task, reporting.token) == (tmp_path / "t", Path("/k"))


def test_an_option_stands_above_the_file(tmp_path: Path) -> None:
    settings = settings_of(written(tmp_path, "[mesh]\nhome = 'node'\n[serve]\ndir = 'log'\n"))
    assert mesh_config(settings, "elsewhere").home == Path("elsewhere")
    assert serve_config(settings, "elsewhere").directory == Path("elsewhere")


def test_without_a_file_all_is_default(tmp_path: Path) -> None:
    config = mesh_config(settings_of(written(tmp_path, "")))
    assert config.home.name == "mesh"
    assert config.poll_s == 300
    assert report_config(settings_of(written(tmp_path, ""))) == ReportConfig()


@pytest.mark.parametrize("section", ["mesh", "serve"])
@pytest.mark.parametrize("value", [0, -5])
def test_a_poll_takes_at_least_a_second(tmp_path: Path, section: str, value: int) -> None:
    settings = settings_of(written(tmp_path, f"[{section}]\npoll_seconds = {value}\n"))
    with pytest.raises(BadConfig, match=r"from 0\.1 to 86400"):
        mesh_config(settings) if section == "mesh" else serve_config(settings, "x")


def test_a_node_that_reports_names_the_others_of_its_organisation(tmp_path: Path) -> None:
    found = report_config(settings_of(written(tmp_path, "[report]\ntask = 'x'\nnodes = ['second', '/far/third']\n")))
    assert found is not None
    assert (found.token, found.nodes) == (None, (tmp_path / "second", Path("/far/third")))
    for wrong in ("[1]", "['']", "[['x']]"):
        with pytest.raises(BadConfig, match="not a list of paths"):
            report_config(settings_of(written(tmp_path, f"[report]\ntask = 'x'\nnodes = {wrong}\n")))


def test_what_is_needed_and_not_set_is_named(tmp_path: Path) -> None:
    settings = settings_of(written(tmp_path, "[report]\ntoken = 'x'\n"))
    with pytest.raises(BadConfig, match=r"\[mesh\] commons: is not set"):
        mesh_config(settings).commons_url()
    with pytest.raises(BadConfig, match=r"\[serve\] dir: is not set"):
        serve_config(settings)


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_survives_a_configuration_file(text: str) -> None:
    assert tomllib.loads(f"key = {toml_text(text)}\n") == {"key": text}
