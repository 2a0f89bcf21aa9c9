"""Every detector says the same in both engines, of texts made of the pieces that it looks for."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.engine.detectors.registry import REGISTRY
from interlock.engine.detectors.secret_forms import FORMS
from interlock.engine.evaluate import evaluate
from interlock.engine.event import SensorEvent
from interlock.engine.policy.builtins import resolver
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Policy, Source
from interlock.native.availability import availability

NATIVE = Path(__file__).parents[2] / "native" / "engine" / "src"
PARAMS: dict[str, dict[str, Any]] = {
    "network_egress": {"allowed_hosts": ["corp.example", "*.good.example", "10.0.0.1", "::1"]},
    "indicator": {"digests": ["0" * 64]},
    "pii_redaction": {"emails": True},
    "shell_metacharacters": {"args": ["command", "to"]},
    "encoded_payload": {"at_least": 24},
    "oversized_text": {"at_least": 60},
    "url_data": {"at_least": 12},
}
PIECES = [
    "4111111111111111", "4111 1111 1111 1111", "5500-0000-0000-0004", "378282246310005", "٤١١١١١١١١١١١١١١١", "1234",
    "DE89 3704 0044 0532 0130 00", "GB29NWBK60161331926819", "de89", "123-45-6789", "078 05 1120", "000-12-3456",
    "me@corp.example", "a.b+c@x.co", "AKIAQ7DGH5JKLQWE7T2M", "ghp_" + "a1B2c3D4e5" * 4, "sk-ant-api03-" + "Ab1_" * 20,
    "xoxb-123456789-abcdefghij", "eyJhbGciOiJI.eyJzdWIiOiIx.sig4", "SK" + "0a1b2c3d" * 4, "password", "passwd: ", "pw=",
    "secret = ", "'hunter2hunter2'", '"Tr0ub4dor&3"', "api_key: ", "token=", "`x9$kQ2!mZ`", "Zm9vYmFyYmF6cXV4MTIz",
    "os.environ",
    "example", "${VAR}", "Authorization: Bearer ", "bearer ", "curl -u me:", "s3cr3tpw0rd", " https://", "http://",
    "ftp:",
    "u:p4ss@", "evil.example", "a.good.example", "corp.example:8080", "169.254.169.254", "127.0.0.1", "0x7f.1", "[::1]",
    "[fe80::1%eth0]", "localhost", "xn--e1afmkfd.example", "пример.example", "/path?q=0123456789abc", "?", "@", "\\",
    "..",
    "-----BEGIN RSA PRIVATE KEY-----", "A" * 45, "-----END RSA PRIVATE KEY-----", "\u200b", "\u202e", "\ufeff",
    "\U000e0041",
    "\U0001f3f4", "\x1b[31m", "\x1b]0;", "\x9b", "<|im_start|>", "[INST]", "ignore all previous instructions",
    "do not tell the user", "you are now in developer mode", "ſ", "K", "é", " ", "  ", "\n", "\t", ":", "-", "=",
    ";", "$(", "|",
    "git push git@h.example:x.git", "scp a b.example:c", "wget ", "curl ", "ssh me@", "rsync ", "'", '"',
    "ABCDEFGH12345678",
]  # fmt: skip
KEYS = ["command", "url", "to", "targetHost", "body", "x y", "webhook_url", "text"]


def _native() -> Any:
    if not availability().installed:
        pytest.skip(availability().sentence)
    return pytest.importorskip("interlock.native.evaluator").NativeEvaluator()


def _policy(name: str) -> Policy:
    spec, params = REGISTRY[name], PARAMS.get(name, {})
    rules = []
    for phase in spec.phases:
        rule: dict[str, Any] = {"id": phase, "phase": phase, "verdict": "block", "reason": "found"}
        rule["when"] = {"detector": name, "params": params}
        if spec.redacts:
            rule |= {"when": {"action": "*"}, "verdict": "modify", "mask": {"detector": name, "params": params}}
        rules.append(rule)
    document = {"format": "interlock-policy", "v": 1, "name": "one", "rules": rules}
    return load_policy(json.dumps(document).encode(), where="one", source=Source("file"), resolve=resolver(None))


TEXTS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map("".join)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_a_detector_says_the_same_in_both_engines(name: str) -> None:
    native, policy = _native(), _policy(name)

    @settings(max_examples=150, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(KEYS), TEXTS, st.sampled_from(REGISTRY[name].phases))
    def compared(key: str, text: str, phase: Any) -> None:
        event = SensorEvent("send", {key: text, "list": [text[::-1], {key: 1}]}, phase)
        ours, theirs = native.evaluate(policy, event), evaluate(policy, event)
        assert ours.decision == theirs.decision
        assert ours.decision.modified_args == theirs.decision.modified_args
        assert ours.event.args == theirs.event.args

    compared()
    assert native.reasons(policy) == {}


def _spans(holds: Any) -> Iterator[str]:
    begin = None
    for code in range(128, 0x110001):
        inside = code < 0x110000 and holds(chr(code))
        if inside and begin is None:
            begin = code
        elif not inside and begin is not None:
            yield f"{begin:x}" if begin == code - 1 else f"{begin:x}-{code - 1:x}"
            begin = None


@pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="the tables are those of Unicode 14.0.0")
def test_the_native_tables_of_characters_are_those_of_python() -> None:
    kinds = {
        "W": str.isalnum,
        "D": str.isdecimal,
        "G": lambda c: c.isdigit() and not c.isdecimal(),
        "A": str.isalpha,
    }
    rows = [f"{kind} {span}" for kind, holds in kinds.items() for span in _spans(holds)]
    assert (NATIVE / "rx" / "words.txt").read_text("ascii").splitlines() == rows


def test_the_native_forms_of_keys_are_those_of_python() -> None:
    rows = ["\t".join((form.kind, " ".join(form.literals), form.source)) for form in FORMS]
    assert (NATIVE / "detectors" / "forms.txt").read_text("ascii").splitlines() == rows
