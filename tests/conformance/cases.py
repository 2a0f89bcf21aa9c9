"""The cases of evaluation.json: policies, events and what is decided, for every engine in every language.

    python -m tests.conformance.cases

writes the file anew from the Python engine, which is the reference; a test holds the file to it, Rust and C replay it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from interlock.engine.decision import Decision
from interlock.engine.detectors.indicator import indicator_of
from interlock.engine.evaluate import Outcome, evaluate
from interlock.engine.event import Origin, SensorEvent
from interlock.engine.payload import result_args, result_of
from interlock.engine.policy.builtins import resolver
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Policy, Source
from interlock.native.planner import planned

FILE: Final = Path(__file__).with_name("evaluation.json")
FORMAT: Final = "interlock-evaluation-vectors"

_RM: Final = {"command": "rm -rf ~/work"}
_CARD: Final = {"text": "pay 4111 1111 1111 1111", "to": ["me@corp.example", "x"]}
_MASK: Final = {"detector": "pii_redaction", "params": {"emails": True}}
_SHA: Final = "9f" * 32
_BIG: Final = 1 << 64
# where paths of the case "links" lead
_LINKS: Final = {
    "/home/dev/app/out": "/etc/cron.d",
    "/home/dev/app/in": "/home/dev/app/in",
    "/tmp/x": "/tmp/x",
    "~/k": "/root/.ssh",
}


def _rule(id: str, when: dict[str, Any], verdict: str = "block", **more: Any) -> dict[str, Any]:
    return {"id": id, "when": when, "verdict": verdict, "reason": f"{id} says so", **more}


def _listed(kind: str, *values: str) -> dict[str, Any]:
    digests = [indicator_of(kind, value).removeprefix(f"{kind}:") for value in values]
    return {"detector": "indicator", "params": {"kind": kind, "digests": digests}}


# name -> rules, further fields of the document, events
_CASES: Final[dict[str, tuple[list[dict[str, Any]], dict[str, Any], list[dict[str, Any]]]]] = {
    "actions": (
        [
            _rule("exact", {"action": "send"}),
            _rule("glob", {"action": "mcp__*__push"}, "escalate"),
            _rule("set", {"action": "read_?"}, "escalate"),
            _rule("who", {"all": [{"principal": {"prefix": "acme/"}}, {"not": {"action": "ls"}}]}),
        ],
        {},
        [
            {"action": "send", "args": {}},
            {"action": "ｓｅｎｄ", "args": {}},
            {"action": "mcp__git__push", "args": {}},
            {"action": "read_x", "args": {}},
            {"action": "other", "args": {}, "principal": "acme/agent"},
            {"action": "ls", "args": {}, "principal": "acme/agent"},
        ],
    ),
    "arguments": (
        [
            _rule("number", {"arg": "n", "ge": 3, "lt": 10}),
            _rule("same", {"arg": "a.b[0]", "equals": {"x": [1, "é", None]}}, attributed_to="a"),
            _rule("any", {"arg": "to[*]", "in": ["x@evil.example", 7]}, "escalate"),
            _rule("raw", {"arg": "t", "equals": "ｅ", "raw": True}),
            _rule("regex", {"arg": "t", "regex": r"^\d{2,3}-[^a-z]+$", "flags": "i"}),
            _rule("suffix", {"arg": 'o["x.y"]', "suffix": ".env", "contains": "/"}),
        ],
        {},
        [
            {"action": "t", "args": {"n": 3.0}},
            {"action": "t", "args": {"n": True}},
            {"action": "t", "args": {"a": {"b": [{"x": [1.0, "e\u0301", None]}]}}},
            {"action": "t", "args": {"to": ["a", 7.0]}},
            {"action": "t", "args": {"t": "ｅ"}},
            {"action": "t", "args": {"t": "e"}},
            {"action": "t", "args": {"t": "123-É!"}},
            {"action": "t", "args": {"o": {"x.y": "/app/.env"}}},
        ],
    ),
    "attribution": (
        [
            _rule("named", {"intent": "fs.delete"}, attributed_to="command"),
            _rule("deep", {"action": "deep"}, "escalate", attributed_to='args.a[0]["x.y"]'),
            _rule("any", {"action": "any"}, attributed_to="*.x"),
            _rule("masked", {"action": "log"}, "modify", mask=_MASK, attributed_to="text"),
            _rule("flow", {"flow": {"source": "tool:fetch"}}, attributed_to="body"),
            _rule("unread", {"arg": "command", "regex": "q"}, attributed_to="cmd"),
        ],
        {"limits": {"command": 10}, "oversize": {"call": "block"}},
        [
            {"action": "Bash", "args": {"command": "rm x"}},
            {"action": "Bash", "args": {"cmd": "rm x"}},
            {"action": "deep", "args": {"a": 1}},
            {"action": "deep", "args": {"b": 1}},
            {"action": "any", "args": {}},
            {"action": "log", "args": {"text": 1, "more": ["4111 1111 1111 1111"]}},
            {"action": "log", "args": {"more": ["4111 1111 1111 1111"]}},
            {"action": "send", "args": {"body": "x"}, "origins": [{"source": "tool:fetch", "path": "to"}]},
            {"action": "send", "args": {"to": "x"}, "origins": [{"source": "tool:fetch", "path": "to"}]},
            {"action": "send", "args": {"command": "x" * 20}},
            {"action": "send", "args": {"command": "x" * 20, "cmd": None}},
        ],
    ),
    "rewrites": (
        [
            _rule("early", {"arg": "text", "contains": "REDACTED"}, "escalate"),
            _rule("mask", {"action": "*"}, "modify", mask=_MASK),
            _rule("key", {"action": "*"}, "modify", mask={"detector": "secrets"}, policy_id="house.key"),
            _rule("shade", {"action": "pay"}, shadow=True),
            _rule("late", {"arg": "to[0]", "equals": "me@corp.example"}),
            _rule("out", {"action": "*"}, "modify", mask=_MASK, phase="result"),
        ],
        {},
        [
            {"action": "pay", "args": _CARD},
            {"action": "log", "args": {"text": "password = 'hunter2hunter2'", "deep": [{"k": "123-45-6789"}]}},
            {"action": "log", "args": {"n": 4111111111111111}},
            {"action": "log", "args": {"text": "nothing"}},
            {"action": "get", "args": {"result": ["a@b.example", 1]}, "phase": "result", "wrapped": True},
            {"action": "get", "args": {"mail": "a@b.example"}, "phase": "result"},
        ],
    ),
    "removals": (
        [
            _rule("gone", {"action": "*"}, "modify", remove=_MASK, attributed_to="text"),
            _rule("key", {"action": "log"}, "modify", remove={"detector": "secrets"}),
            _rule("late", {"arg": "text", "equals": ""}, "escalate"),
            _rule("out", {"action": "*"}, "modify", remove=_MASK, phase="result"),
        ],
        {},
        [
            {"action": "pay", "args": _CARD},
            {"action": "log", "args": {"text": "password = 'hunter2hunter2'", "deep": [{"k": "123-45-6789", "l": 1}]}},
            {"action": "log", "args": {"n": 4111111111111111, "more": "stays"}},
            {"action": "log", "args": {"text": "nothing"}},
            {"action": "get", "args": {"result": ["a@b.example", 1]}, "phase": "result", "wrapped": True},
            {"action": "get", "args": {"mail": "a@b.example", "name": "b"}, "phase": "result"},
        ],
    ),
    "calls": (
        [
            _rule("delete", {"intent": "fs.delete"}, attributed_to="command"),
            _rule("push", {"effects": {"scope": "remote", "undoable": False}}, "escalate"),
            _rule("host", {"host": "*.evil.example"}),
            _rule("inside", {"host": {"class": ["private", "metadata"]}}, "escalate"),
            _rule("ssh", {"path": {"access": "read", "under": "~/.ssh"}}),
            _rule("flow", {"flow": {"source": "tool:fetch_*", "sink": "send.body"}}),
            _rule("odd", {"detector": "network_egress", "params": {"allowed_hosts": ["*.good.example"]}}, shadow=True),
        ],
        {},
        [
            {"action": "Bash", "args": _RM, "cwd": "/home/dev/app"},
            {"action": "Bash", "args": {"command": "git push --force"}},
            {"action": "Bash", "args": {"command": "curl https://a.evil.example/x"}},
            {"action": "Bash", "args": {"command": "cat ~/.ssh/id_rsa"}},
            {"action": "get", "args": {"url": "http://169.254.169.254/"}},
            {"action": "get", "args": {"url": "http://a@b@c/"}},
            {"action": "send", "args": {"body": {"t": 1}}, "origins": [{"source": "tool:fetch_url", "path": "body.t"}]},
            {"action": "send", "args": {"body": 1}, "origins": [{"source": "tool:read", "path": "body"}]},
        ],
    ),
    "listed": (
        [
            _rule("files", _listed("file", _SHA, hashlib.sha256("é".encode()).hexdigest())),
            _rule("packages", _listed("package", "npm:evil@*", "pypi:bad-one@1.0")),
            _rule("listing", _listed("mcp", _SHA), "escalate"),
            _rule("hosts", _listed("host", "evil.example")),
            _rule("own", {"detector": "indicator", "params": {"digests": []}}),
            _rule("late", {"all": [{"action": "Write"}, _listed("file", "0a" * 32)]}, shadow=True),
        ],
        {},
        [
            {"action": "Write", "args": {"file_path": "/x", "content": "é"}},
            {"action": "Write", "args": {"file_path": "/x", "note": "é"}},
            {"action": "Bash", "args": {"command": f"echo {_SHA.upper()}  x | sha256sum -c"}},
            {"action": "Bash", "args": {"command": f"echo {_SHA}0"}},
            {"action": "Write", "args": {"deep": [{"x": f"sha256:{'0A' * 32}."}]}},
            {"action": "Bash", "args": {"command": "npm i -g left-pad@1.0.0 'Evil@2'"}},
            {"action": "Bash", "args": {"cmd": "pip install Bad.One[x]==1.0"}},
            {"action": "Bash", "args": {"cmd": "pip install Bad.One[x]==1.1"}},
            {"action": "Bash", "args": {"note": "npm i evil"}},
            {"action": "mcp__x__y", "args": {}, "server_pin": _SHA},
            {"action": "mcp__x__y", "args": {}, "server_pin": "latest"},
            {"action": "mcp__x__y", "args": {"url": "https://evil.example/"}, "server_pin": _SHA},
        ],
    ),
    "links": (
        [
            _rule("system", {"path": {"access": "write", "under": "/etc"}}),
            _rule("keys", {"path": {"under": "/root/.ssh", "suffix": "ssh"}}, "escalate"),
            _rule("text", {"path": {"under": "/srv", "symlinks": False}}),
        ],
        {},
        [
            {"action": "Bash", "args": {"command": "echo x > out"}, "cwd": "/home/dev/app", "links": _LINKS},
            {"action": "Bash", "args": {"command": "cat out"}, "cwd": "/home/dev/app", "links": _LINKS},
            {"action": "Bash", "args": {"command": "echo x > in"}, "cwd": "/home/dev/app", "links": _LINKS},
            {"action": "Bash", "args": {"command": "cat ~/k; cp /tmp/x in"}, "cwd": "/home/dev/app", "links": _LINKS},
            {"action": "Bash", "args": {"command": "echo x > /etc/y"}},
            {"action": "Bash", "args": {"command": "ls"}},
        ],
    ),
    "large-numbers": (
        [
            _rule("more", {"arg": "n", "ge": _BIG}),
            _rule("less", {"arg": "n", "gt": -_BIG - 1, "lt": _BIG}, "escalate"),
            _rule("same", {"arg": "m", "equals": _BIG}),
            _rule("none", {"arg": "m", "in": [_BIG + 1, "x"]}),
            _rule("exact", {"arg": "f", "equals": 9007199254740993.5e-3}),
        ],
        {},
        [
            {"action": "t", "args": {"n": "1"}},
            {"action": "t", "args": {"n": 9223372036854775807}},
            {"action": "t", "args": {"n": 9223372036854774784.0}},
            {"action": "t", "args": {"m": 0.0}},
            {"action": "t", "args": {"m": "x"}},
            {"action": "t", "args": {"f": 9007199254740993.5e-3}},
        ],
    ),
    "limits": (
        [_rule("long", {"arg": "t", "glob": "a*z"}), _rule("many", {"arg": "l[*]", "equals": 9})],
        {"limits": {"command": 8, "argument": 8, "result": 8, "values": 3}},
        [
            {"action": "t", "args": {"t": "a" * 9}},
            {"action": "t", "args": {"t": "a" * 7 + "z"}},
            {"action": "t", "args": {"t": "a\u00e9\u20ac1z"}},
            {"action": "t", "args": {"t": "a\u00e9\u20ac12z"}},
            {"action": "t", "args": {"l": [1, 2, 3, 9]}},
        ],
    ),
    "limits-in-part": (
        [
            _rule("head", {"arg": "t", "glob": "a*"}, "escalate"),
            _rule("tail", {"arg": "t", "regex": "^.{2}\\n.?z$"}),
            _rule("neither", {"arg": "t", "regex": "^\\n$"}, "escalate"),
        ],
        {"limits": {"argument": 7}, "oversize": {"call": "allow"}},
        [
            {"action": "t", "args": {"t": "\u00e9bc\u00e9z"}},
            {"action": "t", "args": {"t": "\u00e9bcd\u00e9z"}},
            {"action": "t", "args": {"t": "\u00e9\u00e9\u20acz"}},
            {"action": "t", "args": {"t": "b\u00e9\u20ac\U0001f600z"}},
            {"action": "t", "args": {"t": "a\U0001f600\U0001f600z"}},
            {"action": "t", "args": {"t": "\U0001f600\U0001f600"}},
        ],
    ),
    "many-finds": (
        [
            _rule("held", {"all": [{"action": "pay"}, {"detector": "secrets"}]}, "escalate"),
            _rule("mask", {"action": "*"}, "modify", mask={"detector": "pii_redaction"}),
            _rule("key", {"action": "log"}, "modify", mask={"detector": "secrets"}),
            _rule("gone", {"action": "drop"}, "modify", remove={"detector": "secrets"}),
        ],
        {"limits": {"finds": 2}},
        [
            {"action": "t", "args": {"text": "4111 1111 1111 1111; " * 2, "more": ["123-45-6789"]}},
            {"action": "t", "args": {"text": "4111 1111 1111 1111; " * 3, "more": ["123-45-6789"]}},
            {"action": "log", "args": {"text": "password = 'hunter2hunter2'\n" * 3 + "AKIAQ7DGH5JKLQWE7T2M"}},
            {"action": "log", "args": {"text": "AKIAQ7DGH5JKLQWE7T2M " * 3, "note": "stays"}},
            {"action": "pay", "args": {"text": "password = 'hunter2hunter2'\n" * 9}},
            {"action": "drop", "args": {"text": "password = 'hunter2hunter2'\n" * 9, "note": "stays"}},
        ],
    ),
}  # fmt: skip


def vectors() -> dict[str, Any]:
    """The whole file."""
    return {"format": FORMAT, "v": 1, "cases": list(_cases())}


def policy_of(document: dict[str, Any], links: dict[str, str] | None = None) -> Policy:
    """The policy of a document; with `links`, on a file system whose paths lead there."""
    data = json.dumps(document).encode()
    follow = None if links is None else links.__getitem__
    return load_policy(data, where="case", source=Source("file", "case"), resolve=resolver(None), links=follow)


def event_of(body: dict[str, Any]) -> SensorEvent:
    """The event that a case shows as JSON."""
    fields = dict(body)
    wrapped = fields.pop("wrapped", False)
    fields.pop("links", None)
    origins = tuple(Origin(row["source"], row["path"]) for row in fields.pop("origins", ()))
    if fields.get("phase") == "result":
        fields["args"] = result_args(fields["args"]["result"] if wrapped else fields["args"])
    return SensorEvent(**fields, origins=origins)


def told(outcome: Outcome) -> dict[str, Any]:
    """An outcome as the native engine's JSON tells it."""
    args = None
    if outcome.rewritten:
        whole = result_of(outcome.event) if outcome.event.phase == "result" else outcome.event.args
        args = {"result": whole} if whole is not outcome.event.args else whole
    shadows = [[rule.id, _decision(decision)] for rule, decision in outcome.shadows]
    return {
        **_decision(outcome.decision),
        "args": args,
        "rewritten": [name for name in outcome.event.args if name in outcome.rewritten] or sorted(outcome.rewritten),
        "shadows": shadows,
    }


def _decision(decision: Decision) -> dict[str, Any]:
    names = ("reason", "policy_id", "attributed_to")
    return {"verdict": decision.verdict.name.lower(), **{name: getattr(decision, name) for name in names}}


def _cases() -> Iterator[dict[str, Any]]:
    for name, (rules, more, events) in _CASES.items():
        document = {"format": "interlock-policy", "v": 1, "name": name, **more, "rules": rules}
        links = next((body["links"] for body in events if "links" in body), None)
        policy = policy_of(document, links)
        rows = [{"event": body, "decision": told(evaluate(policy, event_of(body)))} for body in events]
        plan = json.loads(b"".join(planned(policy).json))
        yield {"name": name, "document": document, "links": links, "plan": plan, "events": rows}


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), ensure_ascii=False, indent=1) + "\n", "utf-8")
