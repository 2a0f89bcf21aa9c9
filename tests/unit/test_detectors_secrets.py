"""secrets: what is masked, what is left alone, and how much of a corpus of test values is found."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock import SensorEvent
from interlock.detectors import secrets_guard
from interlock.engine.detectors.pii import redacted_pii
from interlock.engine.detectors.secret_forms import FORMS
from interlock.engine.detectors.secrets import redacted_secrets
from tests.quick import demand_soon

CORPORA = Path(__file__).resolve().parents[3] / "shared" / "corpora"
CORPUS = CORPORA / "secrets.jsonl.gz"
BENIGN = ("benign_commands.jsonl.gz", "benign_tool_calls.jsonl.gz")
# made up, with the alphabet and length of the real thing; cut in two so that no scanner of sources takes them for real
A36 = "wWPw5k4aXcaT4fNP0UcnZw" + "JUVFk6LO0pINUx"
HEX40 = "9f8e7d6c5b4a39281706" + "f5e4d3c2b1a098765432"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("id AKIA" + "RDGYZZR3NSGAJU44 here", "id [REDACTED AWS_KEY] here"),
        (f"token ghp_{A36}", "token [REDACTED GITHUB_TOKEN]"),
        (f"x=glpat-{A36[:20]};", "x=[REDACTED GITLAB_TOKEN];"),
        ("xoxb-123456789012-1234567890123-" + A36[:24], "[REDACTED SLACK_TOKEN]"),
        ("sk_live_" + A36[:24], "[REDACTED STRIPE_KEY]"),
        ("AIza" + A36[:35], "[REDACTED GOOGLE_KEY]"),
        ("sk-ant-api03-" + A36 * 3, "[REDACTED ANTHROPIC_KEY]"),
        ("sk-proj-" + A36 * 2, "[REDACTED OPENAI_KEY]"),
        ("sk-" + A36, "[REDACTED OPENAI_KEY]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + A36, "[REDACTED JWT]"),
        ('password = "hunter2-is-long"', 'password = "[REDACTED PASSWORD]"'),
        ("DB_PASSWORD=s3cr3tPa55", "DB_PASSWORD=[REDACTED PASSWORD]"),
        (f"api_key: '{HEX40}'", "api_key: '[REDACTED SECRET]'"),
        (f"MY_TOKEN={A36}", "MY_TOKEN=[REDACTED SECRET]"),
        (f'{{"access_token": "{HEX40}"}}', '{"access_token": "[REDACTED SECRET]"}'),
        (f"Authorization: Bearer {A36}", "Authorization: Bearer [REDACTED TOKEN]"),
        ("postgres://app:Tr0ub4dor@db.internal/x", "postgres://app:[REDACTED PASSWORD]@db.internal/x"),
        ("curl -u kim:Tr0ub4dor https://x.example", "curl -u kim:[REDACTED PASSWORD] https://x.example"),
    ],
)
def test_a_secret_is_masked_and_the_text_around_it_stays(text: str, masked: str) -> None:
    assert redacted_secrets(text)[0] == masked


@pytest.mark.parametrize("head", ["RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY"])
def test_a_private_key_is_masked_whole_even_where_its_end_is_missing(head: str) -> None:
    body = "\n".join(["MIIEpQIBAAKCAQEAn6/O8li+SX4m98LLYt" * 2] * 4)
    key = f"-----BEGIN {head}-----\n{body}\n"
    assert redacted_secrets(f"a {key}-----END {head}----- b") == ("a [REDACTED PRIVATE_KEY] b", ["PRIVATE_KEY"])
    assert redacted_secrets(f"a {key}")[0] == "a [REDACTED PRIVATE_KEY]"


@pytest.mark.parametrize(
    "text",
    [
        "password: changeme",
        "password = get_password()",
        "password=$DB_PASSWORD",
        "password = os.environ['X']",
        "def login(user: str, password: str) -> Token:",
        "OPENAI_API_KEY=sk-your-key-here",
        "ghp_" + "x" * 36,
        "AKIA" + "X" * 16,
        'credentialsId: "ff083f76-7804-4ef1-80e4-fe975bb9141b"',
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIwW62mN4SeEdREY2X+65l1zl9vvNLo7kyp7ZEvVgUXLk user@host",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----",
        "image: nginx@sha256:d3055bbe9c66953adf1b10f70b32feb45bf3067ba36e3d2625871bc8c086f6c3",
        "commit 19d3ad64ac1c7c4f4b0b1e0f0b1d2c3e4f5a6b7c",
        "press the key, then turn the token over",
        'keyboard = "QWERTY-2026-layout"',
    ],
)
def test_what_only_speaks_of_secrets_is_left_alone(text: str) -> None:
    assert redacted_secrets(text) == (text, [])


def test_nested_values_are_masked_with_their_path() -> None:
    decision = secrets_guard()(SensorEvent("t", {"a": {"b": ["x", f"token ghp_{A36}"]}, "c": 1}))
    assert decision is not None
    assert decision.modified_args == {"a": {"b": ["x", "token [REDACTED GITHUB_TOKEN]"]}}
    assert (decision.attributed_to, decision.reason) == ("a.b[1]", "masked GITHUB_TOKEN")
    assert secrets_guard()(SensorEvent("t", {"a": "nothing here"})) is None


def test_every_form_has_a_literal_and_is_looked_for_by_one() -> None:
    for form in FORMS:
        assert form.literals, form.kind
        assert not [*form.matches("")]


@given(st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_a_form_is_found_where_its_plain_pattern_matches(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(FORMS))
    whole = st.from_regex(re.compile(form.source, re.ASCII), fullmatch=True)
    cut = st.tuples(whole, st.integers(0, 50)).map(lambda held: held[0][: held[1]])
    beside = st.sampled_from(["", " ", "-", "a", "_", "\n", "\u00e9", "1", *form.literals])
    text = "".join(data.draw(st.lists(st.one_of(whole, cut, beside), max_size=9)))
    plain = re.compile(rf"(?<![A-Za-z0-9_]){form.source}(?![A-Za-z0-9])")
    assert [*form.matches(text)] == [found.span() for found in plain.finditer(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('password="hunter2abc9":hunter2abc9', 'password="[REDACTED PASSWORD]":[REDACTED PASSWORD]'),
        ("pw=x1y2z3a4 then x1y2z3a4, again", "pw=[REDACTED PASSWORD] then [REDACTED PASSWORD], again"),
        ("curl -u me:s3cr3tpw x; echo s3cr3tpw", "curl -u me:[REDACTED PASSWORD] x; echo [REDACTED PASSWORD]"),
        ("password=abc1.4111x1y2z3`:'|x1y2z3'", "password=[REDACTED PASSWORD]`:'[REDACTED PASSWORD]'"),
        ("https://me:dev@h.example is for dev", "https://me:[REDACTED PASSWORD]@h.example is for dev"),
        ("password: 'correct horse', a correct horse", "password: '[REDACTED PASSWORD]', a correct horse"),
    ],
)
def test_a_secret_is_masked_wherever_it_stands_and_a_plain_word_is_not(text: str, expected: str) -> None:
    assert redacted_secrets(text)[0] == expected


def test_each_command_of_curl_has_its_own_user() -> None:
    text = (
        "curl -s a | curl -u a:s3cr3tpw b; ls -u b:s3cr3two\n" + "curl " * 40 + "-u c:s3cr3t33 d" + " " * 170 + "-u e:f"
    )
    assert redacted_secrets(text)[0] == text.replace("s3cr3tpw", "[REDACTED PASSWORD]").replace(
        "s3cr3t33", "[REDACTED PASSWORD]"
    )


@given(st.text(alphabet="abc123=:\"' ._-/@sk", max_size=60))
def test_masking_is_done_once_and_for_all(text: str) -> None:
    once, _ = redacted_secrets(f"password={text}")
    assert redacted_secrets(once) == (once, [])


@pytest.mark.parametrize(
    "unit",
    [
        "password=",
        "eyJaaaaaaaaaaaa.",
        "M.",
        "curl -u ",
        "-----BEGIN PRIVATE KEY-----",
        "://a:b",
        "authorization: ",
        "key key ",
        "xoxb-1-",
        "sk-ant-api03-a",
        "ghp_",
        "a",
    ],
)
def test_a_quarter_megabyte_is_read_in_linear_time(unit: str) -> None:
    text = unit * (262144 // len(unit))
    demand_soon(1.0, lambda: redacted_secrets(text))  # 0.3 s on a free machine; a quadratic reading takes minutes


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpora are not here")
def test_recall_and_false_alarms_on_a_corpus_of_test_values() -> None:
    """Many rows are fragments that no scanner can know ("c9Z"), and many clean rows are keys by form; so say both."""
    found = {"secret": 0, "clean": 0}
    total = {"secret": 0, "clean": 0}
    own_alarms = []
    for line in gzip.decompress(CORPUS.read_bytes()).splitlines():
        row = json.loads(line)
        total[row["label"]] += 1
        if redacted_secrets(row["text"])[1]:
            found[row["label"]] += 1
            if row["label"] == "clean" and row["kind"].startswith("fp:"):
                own_alarms.append(row["kind"])
    recall, alarms = (found[k] / total[k] for k in ("secret", "clean"))
    print(f"secrets: recall {recall:.3f} of {total['secret']}, false alarms {alarms:.3f} of {total['clean']}")
    assert recall >= 0.70
    assert alarms <= 0.15
    assert own_alarms == []


@pytest.mark.skipif(not all((CORPORA / name).exists() for name in BENIGN), reason="the corpora are not here")
@pytest.mark.parametrize("name", BENIGN)
def test_false_alarms_on_real_commands_and_tool_calls_are_fewer_than_one_in_a_thousand(name: str) -> None:
    rows = [json.loads(line) for line in gzip.decompress((CORPORA / name).read_bytes()).splitlines()]
    texts = [row["command"] if "command" in row else json.dumps(row["args"]) for row in rows]
    alarms = [text for text in texts if redacted_secrets(text)[1] or redacted_pii(text)[1]]
    print(f"{name}: {len(alarms)} of {len(texts)}")
    assert len(alarms) * 1000 < len(texts)
