"""Fetching bytes: one protocol, with a size limit always, and two fetchers: a directory and HTTP.

A fetcher knows names, never trust: what it brings is checked by whoever asked for it.
"""

from __future__ import annotations

import contextlib
import re
import ssl
import time
from collections import OrderedDict
from collections.abc import Iterator
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote

import httpx

from interlock.base.errors import InterlockError
from interlock.base.files import os_reason

__all__ = [
    "DirectoryFetcher",
    "Fetcher",
    "HttpFetcher",
    "HttpPoster",
    "NotFound",
    "TooLarge",
    "Unreachable",
    "bounded_body",
    "fetcher_of",
    "http_client",
    "told_if_unreachable",
]

TIMEOUT_S: Final = 10.0  # seconds for one read, write or connection
ANSWER_S: Final = 120.0  # seconds for a whole answer, so that one that trickles holds nobody up
KEPT: Final = 32  # answers that a fetcher keeps, to ask for with their tag
_DRAINED: Final = 4096  # bytes of an answer that says no
KEPT_BYTES: Final = 64 * 1024  # of each
_TAG: Final = re.compile(r'(?:W/)?"[\x21\x23-\x7e]{0,256}"', re.ASCII)  # what can be sent back as it came


class NotFound(InterlockError):
    """The other side answered, and has no such thing."""

    code = "not-found"


class TooLarge(InterlockError):
    """The other side sent more than was asked for."""

    code = "too-large"


class Unreachable(InterlockError):
    """The other side did not answer, or not as a server of its kind does."""

    code = "unreachable"


class Fetcher(Protocol):
    """Brings the bytes behind a relative path such as `tile/0/000`."""

    def fetch(self, path: str, *, max_length: int) -> bytes:
        """Raises: NotFound, TooLarge (more than `max_length` bytes), Unreachable."""


class DirectoryFetcher:
    """Serves the files below a directory; never one outside it."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def fetch(self, path: str, *, max_length: int) -> bytes:
        try:
            target = (self._root / path).resolve()
        except (OSError, RuntimeError, ValueError):  # a link that leads to itself, a name that no file can have
            raise NotFound("is no file", where=path) from None
        if not target.is_relative_to(self._root):
            raise NotFound("lies outside the directory", where=path)
        try:
            with target.open("rb") as f:
                data = f.read(max_length + 1)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise NotFound("is not there", where=str(target)) from None
        except OSError as e:
            raise Unreachable(f"cannot be read ({os_reason(e)})", where=str(target)) from None
        if len(data) > max_length:
            raise TooLarge(f"is larger than {max_length} bytes", where=path)
        return data


class HttpFetcher:
    """Serves what an HTTP server has below a base URL.

    Small answers with an entity tag are kept in memory, the last KEPT of them, and asked for with that tag
    (If-None-Match, RFC 9110 13.1.2): 304 then gives what is kept. What a server says will never change is not kept.
    """

    def __init__(self, base_url: str, client: httpx.Client | None = None) -> None:
        self._base = base_url.rstrip("/") + "/"
        self._client = client or http_client()
        self._kept: OrderedDict[str, tuple[str, bytes]] = OrderedDict()

    def fetch(self, path: str, *, max_length: int) -> bytes:
        url = self._base + path
        with told_if_unreachable(url):
            try:
                return self._asked(url, path, max_length)
            except httpx.RemoteProtocolError:
                # Most often a server that closed a kept connection just now; a GET may be sent again (RFC 9110 9.2.2).
                return self._asked(url, path, max_length)

    def _asked(self, url: str, path: str, max_length: int) -> bytes:
        tag, kept = self._kept.get(path, ("", b""))
        headers = {"If-None-Match": tag} if tag and len(kept) <= max_length else {}
        with self._client.stream("GET", url, headers=headers) as response:
            if response.status_code == 304 and headers:
                self._kept.move_to_end(path)
                _drain(response)
                return kept
            if response.status_code in (403, 404, 410):
                _drain(response)
                raise NotFound(f"is not there (HTTP {response.status_code})", where=url)
            if response.status_code != 200:
                raise Unreachable(f"answered HTTP {response.status_code}", where=url, fix="check the server's log")
            data = bounded_body(response, max_length)
            self._keep(path, response.headers, data)
            return data

    def _keep(self, path: str, headers: httpx.Headers, data: bytes) -> None:
        self._kept.pop(path, None)
        tag = headers.get("ETag", "")
        if not _TAG.fullmatch(tag) or len(data) > KEPT_BYTES or "immutable" in headers.get("Cache-Control", ""):
            return
        self._kept[path] = (tag, data)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)


class HttpPoster:
    """Posts bytes to one URL, with a bearer token where one is given; the token stands in no error and no repr."""

    def __init__(
        self, url: str, *, max_length: int, token: str | None = None, client: httpx.Client | None = None
    ) -> None:
        self._url = url
        self._max_length = max_length
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._client = client or http_client()

    def __call__(self, body: bytes) -> bytes:
        """The body of an answer 200. Raises: Unreachable, which quotes another answer's first line; TooLarge."""
        sent = self._client.stream("POST", self._url, content=body, headers=self._headers)
        with told_if_unreachable(self._url), sent as response:
            answer, status = bounded_body(response, self._max_length), response.status_code
        if status != 200:
            said = answer[:300].decode("utf-8", "replace").partition("\n")[0]
            raise Unreachable(f"answered HTTP {status} ({said})", where=self._url)
        return answer


def http_client(
    *,
    timeout_s: float = TIMEOUT_S,
    answer_s: float = ANSWER_S,
    socket: str | None = None,
    tls: ssl.SSLContext | None = None,
) -> httpx.Client:
    """A client that follows no redirect, trusts no environment proxy, takes nothing compressed, keeps no cookie, by
    which a server would know who comes again, and does not wait:
    no longer than `timeout_s` for the next byte, and `answer_s` for an answer's last."""
    transport = httpx.HTTPTransport(verify=True if tls is None else tls, trust_env=False, uds=socket)
    pool: Any = transport._pool  # httpx takes no network backend; httpcore does
    pool._network_backend = _Timed(pool._network_backend, answer_s)
    headers = {"Accept-Encoding": "identity"}
    client = httpx.Client(
        transport=transport, headers=headers, timeout=timeout_s, follow_redirects=False, trust_env=False
    )
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))
    return client


class _Timed:
    """A network backend of httpcore whose connections give an answer so many seconds in all."""

    def __init__(self, inner: Any, answer_s: float) -> None:
        self._inner = inner
        self._answer_s = answer_s

    def connect_tcp(self, *args: Any, **kwargs: Any) -> _TimedStream:
        return _TimedStream(self._inner.connect_tcp(*args, **kwargs), self._answer_s)

    def connect_unix_socket(self, *args: Any, **kwargs: Any) -> _TimedStream:
        return _TimedStream(self._inner.connect_unix_socket(*args, **kwargs), self._answer_s)


class _TimedStream:
    """A connection; the time for an answer begins with the last byte of what was asked."""

    def __init__(self, inner: Any, answer_s: float) -> None:
        self._inner = inner
        self._answer_s = answer_s
        self._until = time.monotonic() + answer_s

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        left = self._until - time.monotonic()
        if left <= 0:
            raise httpx.ReadTimeout("the answer takes too long")
        data: bytes = self._inner.read(max_bytes, left if timeout is None else min(left, timeout))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, timeout)
        self._until = time.monotonic() + self._answer_s

    def start_tls(self, *args: Any, **kwargs: Any) -> _TimedStream:
        return _TimedStream(self._inner.start_tls(*args, **kwargs), self._answer_s)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)

    def close(self) -> None:
        self._inner.close()


def fetcher_of(place: str) -> Fetcher:
    """The fetcher of an http(s) URL; of `unix:///SOCKET`, which serves HTTP on this machine; or of `file:///DIR`, a
    copy that was carried here without a network."""
    if place.startswith("file:///"):
        return DirectoryFetcher(Path(unquote(place.removeprefix("file://"))))
    if place.startswith("unix:///"):
        return HttpFetcher("http://localhost", http_client(socket=unquote(place.removeprefix("unix://"))))
    return HttpFetcher(place)


@contextlib.contextmanager
def told_if_unreachable(url: str) -> Iterator[None]:
    """Say in one line that a server does not answer. Raises: Unreachable."""
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as e:  # UnicodeError: a host or path of no known spelling
        raise Unreachable(
            f"does not answer ({type(e).__name__})", where=url, fix="check the address and that the server runs"
        ) from None


def bounded_body(response: httpx.Response, max_length: int) -> bytes:
    """The body of a streamed answer, never unpacked: a few bytes could become any number.

    Raises: TooLarge, as soon as it is; Unreachable, for one that is compressed though nobody asked for that.
    """
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Unreachable("answers compressed, which was not asked for", where=str(response.url))
    parts: list[bytes] = []
    size = 0
    for part in response.iter_bytes():
        size += len(part)
        if size > max_length:
            raise TooLarge(f"is larger than {max_length} bytes", where=str(response.url))
        parts.append(part)
    return b"".join(parts)


def _drain(response: httpx.Response) -> None:
    """Read the little that follows, so that the connection can be used again; one that sends much is let go."""
    with contextlib.suppress(TooLarge):
        bounded_body(response, _DRAINED)
