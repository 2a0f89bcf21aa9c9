"""Conditions on what a call does: its intents and effects, the hosts and paths it touches, where its values came from.

{"intent": NAME}  {"intent": {"effect": TEST, "target": TEST, "scope": TEST, "program": TEST, ...}}
{"effects": {"kind": TEST, "target": TEST, "scope": TEST, "undoable": true}}
    one effect of the call passes every test; kind is read, write, delete, exec, net, privilege or persist, scope
    one of SCOPES, and undoable says whether it can be undone from what is left
{"host": TEST}  {"host": {"class": "private", OPERATOR: ...}}
    one host that the call leads to passes: read from values that are URLs, arguments named for a host or URL, and
    network programs in a command. Hosts are compared in their normal form (lower case, A-labels, plain addresses).
    class (one, or a list) is loopback, metadata (cloud credentials), private (neither public nor a public name,
    the two before included) or public. A host that cannot be read in one way only cannot be judged.
{"path": TEST}  {"path": {"access": "write", "under": "/etc", "symlinks": false, OPERATOR: ...}}
    one path that the call reads, writes or deletes passes: absolute, beginning with ~ for the home directory or with .
    for the directory that the agent works in (what lies there is also tried by its absolute path, where that is known);
    `.`, `..` and variables are resolved as far as the command's text tells. access is one of ACCESSES or a list; under
    (one, or a list) is true of the directory itself and of all below. Where a file system is at hand, the path that
    symbolic links lead to is tried too, unless symlinks is false.
{"flow": {"source": TEST, "sink": SINK}}
    a value of the call came from a source that passes (tool:NAME or principal:NAME; a tool's name given outright
    also stands for its aliases) and stands at, above or below the sink: see `engine.origins`. Without sink, any
    argument. An origin that is unknown passes every test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from interlock.engine.analysis.effects import EFFECTS, INTENT_NAMES, Intent
from interlock.engine.analysis.intents import intents
from interlock.engine.detectors.egress import hosts_of_call
from interlock.engine.detectors.hosts import CLOUD_METADATA, BadHost, is_public, normal_host
from interlock.engine.event import Origin, SensorEvent
from interlock.engine.origins import Sink, flows
from interlock.engine.policy.matching import BESIDE, OPERATORS, Test, compile_test
from interlock.engine.policy.names import names_of
from interlock.engine.policy.normalise import normal
from interlock.engine.policy.problems import BadPolicy, CannotJudge, did_you_mean, known_key, shown
from interlock.engine.policy.regex_syntax import BadPattern
from interlock.engine.policy.setup import Frame

__all__ = [
    "ACCESSES",
    "CALL_KINDS",
    "EFFECT_FIELDS",
    "EFFECT_KINDS",
    "FLOW_FIELDS",
    "HOST_CLASSES",
    "INTENT_FIELDS",
    "PATH_FIELDS",
    "SCOPES",
    "flow_origin",
    "host_literal",
    "intent_passes",
    "widened_source",
]

_Holds: TypeAlias = Callable[[SensorEvent], bool]
_Field: TypeAlias = Callable[[Intent], object]

_FIELD_OF: Final[dict[str, _Field]] = {
    "name": lambda intent: intent.name,
    "effect": lambda intent: intent.effect,
    "target": lambda intent: intent.target,
    "scope": lambda intent: intent.scope,
    "program": lambda intent: intent.program,
    "reversible": lambda intent: intent.reversible,
}
INTENT_FIELDS: Final = tuple(_FIELD_OF)
_EFFECT_OF: Final[dict[str, _Field]] = {
    "kind": lambda intent: intent.effect,
    "target": lambda intent: intent.target,
    "scope": lambda intent: intent.scope,
    "undoable": lambda intent: intent.reversible,
}
EFFECT_FIELDS: Final = tuple(_EFFECT_OF)
EFFECT_KINDS: Final = frozenset(effect for effect, _ in EFFECTS.values())
SCOPES: Final = frozenset(
    {"worktree", "temp", "home", "root", "system", "device", "outside", "remote", "cloud", "unknown"}
)

# fields whose values are a closed set: another one could never be met
_WORDS: Final = {"name": INTENT_NAMES, "effect": EFFECT_KINDS}
_EFFECT_WORDS: Final = {"kind": EFFECT_KINDS, "scope": SCOPES}

FLOW_FIELDS: Final = ("source", "sink")
ACCESSES: Final = ("read", "write", "delete")
PATH_FIELDS: Final = ("access", "under", "symlinks")
_NO_PATH: Final = frozenset({"remote", "cloud", "unknown"})  # scopes whose targets are no paths
_HOMES: Final = re.compile(r"/(?:home|Users)/[^/]+|/root")

_LOCAL: Final = re.compile(r"127\.|::1\Z|(?:.*\.)?localhost\Z")
HOST_CLASSES: Final[dict[str, Callable[[str], bool]]] = {
    "loopback": lambda host: _LOCAL.match(host) is not None,
    "metadata": lambda host: host in CLOUD_METADATA,
    "private": lambda host: not is_public(host) or host in CLOUD_METADATA,
    "public": lambda host: is_public(host) and host not in CLOUD_METADATA,
}
_HOST_LITERALS: Final = ("equals", "in", "glob", "prefix", "suffix", "contains")


def intent_passes(wanted: object, frame: Frame, where: str) -> Callable[[Intent], bool]:
    """The test of one intent that an `intent` condition asks for. Raises: BadPolicy."""
    _demand_call(frame, "an intent is", where)
    if isinstance(wanted, str):
        return _intent_named(wanted, where)
    if isinstance(wanted, Mapping) and wanted:
        return _with_fields(wanted, _FIELD_OF, _WORDS, "intent field", where)
    raise BadPolicy("is not an intent", where=where, fix='write a name, or {"effect": ..., "scope": ...}')


def flow_origin(wanted: object, frame: Frame, where: str) -> Callable[[SensorEvent], Origin | None]:
    """The first origin that a `flow` condition is met by. Raises: BadPolicy."""
    _demand_call(frame, "a flow is", where)
    if not isinstance(wanted, Mapping):
        raise BadPolicy("is not an object", where=where, fix='write {"source": "tool:fetch_*", "sink": "send.body"}')
    for key in wanted:
        known_key(key, FLOW_FIELDS, where)
    if "source" not in wanted:
        raise BadPolicy("has no source", where=where, fix='write "source": "tool:NAME" or "principal:NAME"')
    source = compile_test(widened_source(wanted["source"], where), f"{where}.source")
    sink = _sink(wanted["sink"], f"{where}.sink") if "sink" in wanted else None
    return lambda event: flows(event, source, sink)


def _demand_call(frame: Frame, what: str, where: str) -> None:
    if frame.phase != "call":
        raise BadPolicy(f"{what} read from a call, and this rule sees results", where=where)


def _intent(value: Mapping[str, object], frame: Frame, where: str) -> _Holds:
    holds = intent_passes(value["intent"], frame, where)
    return lambda event: any(holds(intent) for intent in intents(event))


def _intent_named(name: str, where: str) -> Callable[[Intent], bool]:
    """A name stands for itself and for all that lies below it: fs.delete also for fs.delete.root."""
    below = name + "."
    if name not in INTENT_NAMES and not any(known.startswith(below) for known in INTENT_NAMES):
        raise BadPolicy(f"unknown intent {shown(name)}", where=where, fix=did_you_mean(name, INTENT_NAMES))
    return lambda intent: intent.name == name or intent.name.startswith(below)


def _effects(value: Mapping[str, object], frame: Frame, where: str) -> _Holds:
    _demand_call(frame, "an effect is", where)
    wanted = value["effects"]
    if not isinstance(wanted, Mapping) or not wanted:
        raise BadPolicy("is not an effect", where=where, fix='write {"kind": "delete", "scope": "home"}')
    holds = _with_fields(wanted, _EFFECT_OF, _EFFECT_WORDS, "effect field", where)
    return lambda event: any(holds(intent) for intent in intents(event))


def _with_fields(
    wanted: Mapping[str, object],
    fields: Mapping[str, _Field],
    words: Mapping[str, frozenset[str]],
    kind: str,
    where: str,
) -> Callable[[Intent], bool]:
    tests: list[tuple[_Field, Test]] = []
    for key, given in wanted.items():
        known_key(key, fields, where, kind)
        if key in words:
            _demand_words(given, words[key], key, f"{where}.{key}")
        test = {"equals": given} if isinstance(given, bool) else given  # undoable: true is the plain spelling
        tests.append((fields[key], compile_test(test, f"{where}.{key}")))
    return lambda intent: all(test(field(intent)) for field, test in tests)


def _demand_words(test: object, known: frozenset[str], kind: str, where: str) -> None:
    """Raises: BadPolicy, where a test asks for a word outright that is not among the known ones."""
    words: list[object] = []
    if isinstance(test, str) and not any(sign in test for sign in "*?["):
        words.append(test)
    elif isinstance(test, Mapping):
        choices = test.get("in", ())
        words += choices if isinstance(choices, list | tuple) else ()
        words += (test["equals"],) if "equals" in test else ()
    for word in words:
        if not isinstance(word, str) or word not in known:
            raise BadPolicy(f"unknown {kind} {shown(word)}", where=where, fix=did_you_mean(word, known))


def _host(value: Mapping[str, object], frame: Frame, where: str) -> _Holds:
    _demand_call(frame, "a host is", where)
    wanted = value["host"]
    test = _host_test(wanted, where)

    def reaches(event: SensorEvent) -> bool:
        try:
            return any(test(host) for host in _hosts(event))
        except BadHost as e:
            raise CannotJudge(f"the call leads to a host that cannot be read: {e}", where=where) from None

    return reaches


def _hosts(event: SensorEvent) -> Iterator[str]:
    """Hosts by what the arguments are called and hold, and by what the parsed command does. Raises: BadHost."""
    yield from hosts_of_call(event)
    for intent in intents(event):
        if intent.name.startswith("net.") and (text := intent.target.rpartition("@")[2]):
            try:
                yield normal_host(text)
            except BadHost:
                continue  # a target that is no host: a name that only the shell knows, a device


def _host_test(wanted: object, where: str) -> Callable[[str], bool]:
    if isinstance(wanted, Mapping) and "class" in wanted:
        classes = _words(wanted["class"], tuple(HOST_CLASSES), "host class", f"{where}.class")
        rest = {key: held for key, held in wanted.items() if key != "class"}
        test = _host_test(rest, where) if rest else None
        tests = [HOST_CLASSES[name] for name in classes]
        return lambda host: any(one(host) for one in tests) and (test is None or test(host))
    if isinstance(wanted, str):
        return compile_test(host_literal("glob", wanted, where), where)
    if isinstance(wanted, Mapping):
        for key in wanted:
            known_key(key, (*OPERATORS, *BESIDE, "class"), where, "operator")
        spelt = {k: host_literal(k, v, f"{where}.{k}") if k in _HOST_LITERALS else v for k, v in wanted.items()}
        return compile_test(spelt, where)
    raise BadPolicy("is not a test of hosts", where=where, fix='write "*.example.org" or {"class": "private"}')


def host_literal(key: str, value: object, where: str) -> object:
    """What an operator looks for in a host: a host, or a part of one, as hosts are spelt here. Raises: BadPolicy."""
    if isinstance(value, list | tuple):
        return [host_literal("equals", one, where) for one in value]
    whole = key == "equals" or (key == "glob" and not any(sign in str(value) for sign in "*?["))
    if not isinstance(value, str) or not whole:
        return value.lower() if isinstance(value, str) else value
    try:
        return normal_host(f"[{value}]" if value.count(":") > 1 and not value.startswith("[") else value)
    except BadHost as e:
        raise BadPolicy(f"{shown(value)} is no host ({e})", where=where) from None


def _path(value: Mapping[str, object], frame: Frame, where: str) -> _Holds:
    _demand_call(frame, "a path is", where)
    wanted = value["path"]
    fields = wanted if isinstance(wanted, Mapping) else {"glob": wanted}
    for key in fields:
        known_key(key, (*PATH_FIELDS, *OPERATORS, *BESIDE), where, "operator")
    accesses = _words(fields.get("access", ACCESSES), ACCESSES, "access", f"{where}.access")
    follow = fields.get("symlinks", True)
    if not isinstance(follow, bool):
        raise BadPolicy("is neither true nor false", where=f"{where}.symlinks")
    resolve = frame.setup.resolve if follow else None
    test = _path_test({k: v for k, v in fields.items() if k not in ("access", "symlinks")}, where)

    def touches(event: SensorEvent) -> bool:
        touched = (i.target for i in intents(event) if i.effect in accesses and i.target and i.scope not in _NO_PATH)
        paths = [spelt for path in touched for spelt in _spellings(path, event.cwd or "")]
        if any(map(test, paths)):
            return True
        return resolve is not None and any(test(resolve(path)) for path in dict.fromkeys(paths) if path[0] in "/~")

    return touches


def _spellings(path: str, cwd: str) -> tuple[str, ...]:
    """A path, and where it lies in the directory that the agent works in, also as seen from there."""
    top = cwd.rstrip("/")
    if not cwd.startswith("/") or not (path == top or path.startswith(top + "/")):
        return (path,)
    return path, ("." + path[len(top) :]).rstrip("/")


def _path_test(fields: Mapping[str, object], where: str) -> Callable[[str], bool]:
    rest = {key: held for key, held in fields.items() if key != "under"}
    test = compile_test(rest, where) if rest else None
    if "under" not in fields:
        return test or (lambda path: True)
    given = fields["under"]
    tops = [given] if isinstance(given, str) else given
    if not isinstance(tops, list | tuple) or not tops:
        raise BadPolicy("is not a directory, nor a list of some", where=f"{where}.under")
    under = [_under(top, f"{where}.under") for top in tops]
    return lambda path: any(one(path) for one in under) and (test is None or test(path))


def _under(top: object, where: str) -> Callable[[str], bool]:
    if not isinstance(top, str) or top[:1] not in ("/", "~", ".") or ".." in top.split("/"):
        raise BadPolicy("is not a directory", where=where, fix='write "/etc", "~/.ssh" or "./build", without ..')
    plain = normal(top).rstrip("/")

    def below(path: str) -> bool:
        text = normal(path)
        if plain[:1] == "~" and text[:1] == "/" and (home := _HOMES.match(text)):
            text = "~" + text[home.end() :]
        return text == plain or text.startswith(plain + "/") or (not plain and text[:1] == "/")

    return below


def _words(value: object, known: tuple[str, ...], kind: str, where: str) -> tuple[str, ...]:
    """One of the known words, or a list of some. Raises: BadPolicy."""
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not words:
        raise BadPolicy(f"is not a {kind}, nor a list of some", where=where, fix=f"known here: {', '.join(known)}")
    for word in words:
        if word not in known:
            raise BadPolicy(f"unknown {kind} {shown(word)}", where=where, fix=did_you_mean(word, known))
    return tuple(words)


def _flow(value: Mapping[str, object], frame: Frame, where: str) -> _Holds:
    first = flow_origin(value["flow"], frame, where)
    return lambda event: first(event) is not None


def widened_source(source: object, where: str) -> object:
    """A source; a tool's name given outright also stands for its aliases."""
    if not isinstance(source, str):
        return source
    if not source.startswith(("tool:", "principal:", "*")):
        raise BadPolicy("is not a source", where=f"{where}.source", fix='write "tool:NAME", "principal:NAME" or "*"')
    kind, _, name = source.partition(":")
    if kind == "tool" and not any(sign in name for sign in "*?["):
        return {"in": [f"tool:{alias}" for alias in names_of(name)]}
    return source


def _sink(text: object, where: str) -> Sink:
    if not isinstance(text, str):
        raise BadPolicy("is not a sink", where=where, fix='write "http_post.body", "body" or "args.a.b"')
    try:
        return Sink(text)
    except (ValueError, BadPattern) as e:
        raise BadPolicy(str(e), where=where) from None


CALL_KINDS: Final[dict[str, Callable[[Mapping[str, object], Frame, str], _Holds]]] = {
    "intent": _intent,
    "effects": _effects,
    "host": _host,
    "path": _path,
    "flow": _flow,
}
