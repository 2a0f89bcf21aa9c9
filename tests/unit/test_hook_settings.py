"""Our entries in an agent's settings: put in once, taken out again, everything else byte for byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.interceptors.hooks.settings import BadSettings, commands, entry, with_hooks, without_hooks

COMMAND = "/opt/venv/bin/python -I '/opt/my venv/interlock/__main__.py' hook claude-code"
TEXTS = [
    "{}",
    "{}\n",
    '{"model": "x"}',
    '{\n  "model": "x"\n}\n',
    '{\n\t"permissions": {"allow": ["Bash(ls:*)"]},\n\t"model": "\\u0061 \\/ é"\n}',
    '{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "lint"}]}]}}',
    '{\n    "hooks": {\n        "Stop": [],\n        "PreToolUse": [\n            {"matcher": "X", "hooks": []}\n'
    '        ]\n    },\n    "after": 1e3\n}\n',
    '\n { "a" : [ 1 , 2 ] , "hooks" : { "PostToolUse" : [ { "hooks" : [ ] } ] } }',
    '{\r\n  "a": 1,\r\n  "b": 2\r\n}\r\n',
]


@pytest.mark.parametrize("text", TEXTS)
def test_install_adds_our_entries_and_keeps_every_other_byte(text: str) -> None:
    after = with_hooks(text, COMMAND, "f")
    value = json.loads(after)
    for event in ("PreToolUse", "PostToolUse"):
        assert value["hooks"][event][-1] == entry(COMMAND)
    assert _is_subsequence(text.rstrip("}] \r\n"), after)


@pytest.mark.parametrize("text", [t for t in TEXTS if t != "{}\n"])
def test_taking_our_entries_out_restores_the_text(text: str) -> None:
    assert without_hooks(with_hooks(text, COMMAND, "f"), "f") == text


@pytest.mark.parametrize("text", TEXTS)
def test_twice_is_once(text: str) -> None:
    once = with_hooks(text, COMMAND, "f")
    assert with_hooks(once, COMMAND, "f") == once


def test_an_older_entry_of_ours_is_replaced_wherever_it_stands() -> None:
    old = {"matcher": "*", "hooks": [{"type": "command", "command": "/old/bin/interlock hook claude-code"}]}
    other = {"matcher": "Bash", "hooks": [{"type": "command", "command": "lint"}]}
    text = json.dumps({"hooks": {"PreToolUse": [old, other, old], "PostToolUse": [old]}})
    hooks = json.loads(with_hooks(text, COMMAND, "f"))["hooks"]
    assert hooks == {"PreToolUse": [other, entry(COMMAND)], "PostToolUse": [entry(COMMAND)]}


def test_a_hook_of_somebody_else_in_our_entry_stays() -> None:
    mixed = entry(COMMAND)
    lint = {"type": "command", "command": "lint"}
    hooks = mixed["hooks"]
    assert isinstance(hooks, list)
    text = json.dumps({"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [lint, *hooks]}]}})
    assert json.loads(without_hooks(text, "f")) == {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [lint]}]}}


def test_an_entry_that_only_mentions_us_is_not_ours() -> None:
    other = {"matcher": "*", "hooks": [{"type": "command", "command": "echo interlock"}]}
    text = json.dumps({"hooks": {"PreToolUse": [other]}})
    assert without_hooks(text, "f") == text
    assert commands(text, "f") == {"PreToolUse": [], "PostToolUse": []}


def test_the_entry_covers_every_tool_has_a_timeout_and_fails_closed() -> None:
    found = commands(with_hooks("{}", COMMAND, "f"), "f")
    for hooks in found.values():
        assert hooks == [{"type": "command", "command": COMMAND, "timeout": 15, "onFailure": "block"}]
    assert entry(COMMAND)["matcher"] == "*"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"a": 1, "a": 2}',
        '{"hooks": []}',
        '{"hooks": {"PreToolUse": {}}}',
        '// x\n{"a": 1}',
        '{"a": NaN}',
    ],
)
def test_what_cannot_be_edited_safely_is_refused(text: str) -> None:
    with pytest.raises(BadSettings, match="f: "):
        with_hooks(text, COMMAND, "f")
    with pytest.raises(BadSettings, match="f: "):
        without_hooks(text, "f")


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
_HOOKS = st.dictionaries(
    st.sampled_from(["PreToolUse", "PostToolUse", "Stop"]), st.lists(_VALUES, min_size=1, max_size=2), max_size=3
)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.text(max_size=6).filter(lambda k: k != "hooks"), _VALUES, max_size=4),
    st.none() | _HOOKS,
    st.sampled_from([None, 1, 2, "\t"]),
)
def test_any_settings_keep_their_values_and_come_back(
    rest: dict[str, object], hooks: dict[str, object] | None, indent: int | str | None
) -> None:
    before = rest | ({} if hooks is None else {"hooks": hooks})
    text = json.dumps(before, indent=indent)
    after = with_hooks(text, COMMAND, "f")
    assert {k: v for k, v in json.loads(after).items() if k != "hooks"} == rest
    taken = json.loads(without_hooks(after, "f"))
    assert taken == {k: v for k, v in before.items() if k != "hooks" or v}


def _is_subsequence(part: str, whole: str) -> bool:
    at = iter(whole)
    return all(c in at for c in part)


def test_a_file_with_line_ends_of_windows_keeps_to_them() -> None:
    text = '{\r\n  "hooks": {\r\n    "Stop": []\r\n  }\r\n}\r\n'
    installed = with_hooks(text, COMMAND, "f")
    assert "\n" not in installed.replace("\r\n", "")
    assert without_hooks(installed, "f") == text
