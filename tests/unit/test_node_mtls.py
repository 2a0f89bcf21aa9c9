"""mTLS between leader and helper, under a CA of the test's own: a token alone opens nothing, keys stay open to all."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from interlock.base.errors import BadInput
from interlock.base.fetch import Unreachable, http_client
from interlock.base.settings import BadConfig, Settings
from interlock.node.certified import client_context
from interlock.node.config import serve_config
from interlock.node.http import Listen, open_socket, serve
from interlock.node.parties import HttpExchange
from tests.unit.dap_http import wait_until

NOW = datetime.datetime.now(datetime.UTC)
TOKEN = "0123456789abcdef0123456789abcdef"


@dataclass
class Ca:
    """A certificate authority of a test, and the files that it made."""

    folder: Path
    name: str

    def __post_init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, self.name)])
        made = self._builder(self._subject, self._key).add_extension(x509.BasicConstraints(True, None), critical=True)
        self.path = self.folder / f"{self.name}.pem"
        self.path.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> tuple[Path, Path]:
        """A certificate for 127.0.0.1, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        made = self._builder(subject, key).add_extension(names, critical=False).sign(self._key, hashes.SHA256())
        cert, path = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        form = serialization.PrivateFormat.PKCS8
        path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        return cert, path

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        day = datetime.timedelta(days=1)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - day)
            .not_valid_after(NOW + day)
        )


@dataclass
class Helper:
    """A server that demands certificates of one CA beside a token, and what came through to it."""

    url: str
    ours: Ca
    theirs: Ca
    came: list[str]

    def ask(self, token: str, cert: tuple[Path | None, Path | None]) -> int:
        client = http_client(tls=client_context(*cert, self.ours.path))
        with contextlib.closing(HttpExchange(token, client)) as exchange:
            return exchange("POST", f"{self.url}/jobs", "text/plain", b"x").status


@pytest.fixture(scope="module")
def helper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helper]:
    folder = tmp_path_factory.mktemp("mtls")
    ours, theirs, came = Ca(folder, "ours"), Ca(folder, "theirs"), []

    async def jobs(request: Request) -> PlainTextResponse:
        came.append(request.headers.get("authorization", ""))
        return PlainTextResponse("done")

    cert, key = ours.issue("helper")
    listen = Listen(tls_cert=cert, tls_key=key, tls_client_ca=ours.path)
    sock, stop, urls = open_socket(listen), threading.Event(), list[str]()
    app = Starlette(routes=[Route("/jobs", jobs, methods=["POST"])])
    thread = threading.Thread(
        target=serve, args=(app, listen), kwargs={"sock": sock, "ready": urls.append, "stop": stop}
    )
    thread.start()
    wait_until(lambda: bool(urls))
    yield Helper(urls[0], ours, theirs, came)
    stop.set()
    thread.join(15)
    assert not thread.is_alive()


def test_a_leader_with_token_and_certificate_comes_in(helper: Helper) -> None:
    assert helper.ask(TOKEN, helper.ours.issue("leader")) == 200
    assert helper.came[-1] == f"Bearer {TOKEN}"


def test_a_token_without_a_certificate_opens_nothing(helper: Helper) -> None:
    before = len(helper.came)
    assert helper.ask(TOKEN, (None, None)) == 403
    assert len(helper.came) == before


def test_a_certificate_of_another_ca_is_refused_before_anything_is_read(helper: Helper) -> None:
    before = len(helper.came)
    with pytest.raises(Unreachable):
        helper.ask(TOKEN, helper.theirs.issue("mallory"))
    assert len(helper.came) == before


def test_who_comes_without_a_token_needs_no_certificate(helper: Helper) -> None:
    assert helper.ask("", (None, None)) == 200


def test_a_helper_whose_certificate_is_of_no_known_ca_is_not_talked_to(helper: Helper) -> None:
    client = http_client(tls=client_context(*helper.ours.issue("leader-2"), helper.theirs.path))
    with contextlib.closing(HttpExchange(TOKEN, client)) as exchange, pytest.raises(Unreachable):
        exchange("POST", f"{helper.url}/jobs", "text/plain", b"x")


@pytest.mark.parametrize(
    "named",
    [
        lambda ca, cert, key: (cert, None, None),
        lambda ca, cert, key: (cert, ca, None),
        lambda ca, cert, key: (None, None, key),
        lambda ca, cert, key: (cert, key.with_name("nowhere"), ca),
    ],
)
def test_files_that_make_no_pair_are_one_line(tmp_path: Path, named: Callable[..., tuple[Path, Path, Path]]) -> None:
    ca = Ca(tmp_path, "ca")
    with pytest.raises(BadConfig) as caught:
        client_context(*named(ca.path, *ca.issue("leader")))
    assert "\n" not in str(caught.value)


def test_a_leader_without_certificates_talks_as_it_always_did() -> None:
    assert client_context(None, None, None) is None


def test_a_leaders_settings_name_its_certificate_beside_them(tmp_path: Path) -> None:
    values = {"dir": "leader", "helper_cert": "a.crt", "helper_key": "a.key", "helper_ca": "ca.pem"}
    config = serve_config(Settings(tmp_path / "interlock.toml", {"serve": values}))
    named = (config.helper_cert, config.helper_key, config.helper_ca)
    assert named == (tmp_path / "a.crt", tmp_path / "a.key", tmp_path / "ca.pem")


def test_a_client_ca_without_tls_behind_a_proxy_or_that_is_none_is_refused(tmp_path: Path) -> None:
    ca = Ca(tmp_path, "ca")
    cert, key = ca.issue("helper")
    for listen in (Listen(tls_client_ca=ca.path), Listen("127.0.0.1", 0, None, cert, key, True, ca.path)):
        with pytest.raises(BadInput, match="TLS that ends here"):
            listen.check()
    with pytest.raises(BadInput, match="is no CA"):
        Listen("127.0.0.1", 0, None, cert, key, False, key).check()
