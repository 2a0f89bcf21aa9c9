"""Sources, sinks, and whether a value flows from one to the other."""

from __future__ import annotations

import pytest

from interlock.engine.event import Origin, SensorEvent
from interlock.engine.flow import record_origin
from interlock.engine.origins import Sink, flows
from interlock.engine.policy.glob import compile_glob
from interlock.engine.sources import UNKNOWN, checked_origins, origin_for_principal, origin_for_tool


def _event(*origins: Origin, action: str = "http_post") -> SensorEvent:
    return SensorEvent(action, {"body": "x"}, origins=origins)


def _flows(sink: str, path: str, action: str = "http_post", source: str = "tool:fetch_url") -> bool:
    event = _event(Origin(source, path), action=action)
    return flows(event, compile_glob("tool:fetch_*"), Sink(sink)) is not None


@pytest.mark.parametrize(
    ("sink", "path"),
    [
        ("body", "body"),
        ("args.body", "body"),
        ("http_post.body", "body"),
        ("http_*.body", "body"),
        ("*.body", "body"),
        ("http_post.body", "body.text[0]"),  # below the sink
        ("http_post.body.text[0]", "body"),  # above it
        ("http_post.body.text[*]", "body.text[3]"),
        ("http_post.body.*.x", "body.a.x"),
        ('http_post.body["odd key"]', "body.*"),  # a key that is no plain name has lost its name in the origin
        ('http_post.body["odd key"]', 'body["\\ud800"]'),  # nor has one that is no text
        ("http_post.body", ""),  # the whole event came from there
        ("body.text", "body.text"),  # the reading without an action
    ],
)
def test_a_value_at_the_sink_below_it_or_above_it_flows(sink: str, path: str) -> None:
    assert _flows(sink, path)


@pytest.mark.parametrize(
    ("sink", "path", "action"),
    [
        ("http_post.body", "headers", "http_post"),
        ("http_post.body", "body", "http_get"),
        ("http_post.body[0]", "body[1]", "http_post"),
        ("args.http_post.body", "body", "http_post"),
        ("body", "bodyguard", "http_post"),
    ],
)
def test_a_value_elsewhere_does_not(sink: str, path: str, action: str) -> None:
    assert not _flows(sink, path, action)


def test_an_action_with_dots_in_its_name_is_found_in_front_of_the_path() -> None:
    assert _flows("mcp.mail.send.body", "body", action="mcp.mail.send")
    assert not _flows("mcp.mail.send.body", "body", action="mcp.mail")


def test_only_sources_that_match_count_and_the_first_is_named() -> None:
    event = _event(Origin("tool:read", "body"), Origin("tool:fetch_a", "to"), Origin("tool:fetch_b", "body"))
    assert flows(event, compile_glob("tool:fetch_*"), Sink("body")) == Origin("tool:fetch_b", "body")
    assert flows(event, compile_glob("tool:fetch_*")) == Origin("tool:fetch_a", "to")
    assert flows(event, compile_glob("principal:*")) is None


def test_an_unknown_origin_passes_for_every_source() -> None:
    assert _flows("http_post.body", "body", source=UNKNOWN)
    assert not _flows("http_post.body", "to", source=UNKNOWN)


@pytest.mark.parametrize("sink", ["", ".", "a.", "a..b", "[0]x", "body[", 'body["x]', "[a.b", "x" * 1001])
def test_what_is_no_sink_is_refused_when_it_is_made(sink: str) -> None:
    with pytest.raises(ValueError, match="a sink"):
        Sink(sink)


def test_labels_name_the_kind_of_source() -> None:
    assert (origin_for_tool("fetch"), origin_for_principal("acme/a")) == ("tool:fetch", "principal:acme/a")


def test_origins_are_written_as_a_mapping_or_as_values() -> None:
    expected = (Origin("tool:a", "body"), Origin("tool:b", "to"), Origin("principal:c", "to"))
    assert checked_origins({"body": "tool:a", "to": ["tool:b", "principal:c"]}) == expected
    assert checked_origins(expected) == expected
    assert checked_origins(["tool:a"]) == (Origin("tool:a", ""),)
    assert checked_origins(()) == ()


@pytest.mark.parametrize("given", ["tool:a", [1], {"body": [1]}, 5, [Origin("a", 1)]])  # type: ignore[arg-type]
def test_anything_else_is_no_origin(given: object) -> None:
    with pytest.raises(TypeError, match="origins is"):
        checked_origins(given)


@pytest.mark.parametrize("label", ["fetch", "tool:", "Tool:fetch", "user:mia", "", " tool:fetch"])
def test_a_label_that_no_rule_could_ask_for_is_misuse(label: str) -> None:
    for given in ([label], {"body": label}, [Origin(label, "body")]):
        with pytest.raises(ValueError, match="is no source; write tool:NAME or principal:NAME"):
            checked_origins(given)
    with pytest.raises(ValueError, match=r"record_origin: .* is no source"):
        record_origin("a value", label)


def test_a_host_that_cannot_tell_says_unknown() -> None:
    assert checked_origins([UNKNOWN]) == (Origin(UNKNOWN, ""),)
