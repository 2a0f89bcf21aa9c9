"""What somebody on the network does: a real server on loopback that answers otherwise than the mirror behind it.

Each loop of the server is bounded, and ends when the node hangs up.
"""

from __future__ import annotations

import contextlib
import gzip
import http.server
import socket
import threading
import time
from collections.abc import Callable, Iterator

from interlock.base.fetch import HttpFetcher, http_client
from tests.attack.scene import Scene

Attack = Callable[[Scene], None]
Answer = Callable[["Handler", bytes | None], None]  # the handler, and what the honest mirror has
TIMEOUT_S, ANSWER_S = 0.4, 0.4
TIMESTAMP, CHECKPOINT = "metadata/timestamp.json", "log/checkpoint"


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves the honest mirror's files, but for the one path that is attacked."""

    scene: Scene
    attacked: str
    answer: Answer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.lstrip("/")
        file = self.scene.mirror.public / path
        data = file.read_bytes() if file.is_file() else None
        if path == self.attacked:
            self.close_connection = True
            with contextlib.suppress(OSError):
                type(self).answer(self, data)
        else:
            self.give(data)

    def give(self, data: bytes | None, *, length: int | None = None, **headers: str) -> None:
        self.send_response(404 if data is None else 200)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        body = data or b""
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True


@contextlib.contextmanager
def _serving(scene: Scene, attacked: str, answer: Answer) -> Iterator[str]:
    handler = type("Attacked", (Handler,), {"scene": scene, "attacked": attacked, "answer": staticmethod(answer)})
    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def answered(path: str, answer: Answer) -> Attack:
    """The node reads over HTTP, and one path is answered so."""

    def attack(scene: Scene) -> None:
        scene.publish(2)
        url = scene.stack.enter_context(_serving(scene, path, answer))
        client = scene.stack.enter_context(http_client(timeout_s=TIMEOUT_S, answer_s=ANSWER_S))
        scene.shown = HttpFetcher(url, client)

    return attack


def no_server(scene: Scene) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    client = scene.stack.enter_context(http_client(timeout_s=TIMEOUT_S, answer_s=ANSWER_S))
    scene.shown = HttpFetcher(f"http://127.0.0.1:{port}", client)


def slow_head(handler: Handler, data: bytes | None) -> None:
    """A header line that comes byte by byte, each in time."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Wait: ")
    for _ in range(100):
        handler.wfile.write(b".")
        time.sleep(0.05)


def slow_body(handler: Handler, data: bytes | None) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b" ")
        time.sleep(0.05)


def silence(handler: Handler, data: bytes | None) -> None:
    """Nothing at all, for longer than the node waits."""
    handler.connection.settimeout(4 * TIMEOUT_S)
    handler.rfile.read(1)


def endless_body(handler: Handler, data: bytes | None) -> None:
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    for _ in range(4096):
        handler.wfile.write(b" " * 65_536)


def endless_head(handler: Handler, data: bytes | None) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for i in range(4096):
        handler.wfile.write(b"X-%d: %s\r\n" % (i, b"x" * 4000))


def packed(handler: Handler, data: bytes | None) -> None:
    """50 MB of nothing in 50 kB."""
    handler.give(gzip.compress(bytes(50_000_000), 1), Content_Encoding="gzip")


def packed_honestly(handler: Handler, data: bytes | None) -> None:
    handler.give(gzip.compress(data or b""), Content_Encoding="gzip")


def cut_off(handler: Handler, data: bytes | None) -> None:
    assert data is not None
    handler.give(data[: len(data) // 2], length=len(data))


def elsewhere(handler: Handler, data: bytes | None) -> None:
    handler.send_response(302)
    handler.send_header("Location", "http://127.0.0.1:9/metadata/timestamp.json")
    handler.send_header("Content-Length", "0")
    handler.end_headers()


def a_page(handler: Handler, data: bytes | None) -> None:
    """What a captive portal says to all."""
    handler.give(b"<html>Welcome! Please accept our terms.</html>", Content_Type="text/html")


def broken(handler: Handler, data: bytes | None) -> None:
    handler.send_response(500)
    handler.send_header("Content-Length", "0")
    handler.end_headers()


def no_http(handler: Handler, data: bytes | None) -> None:
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.9\r\n" * 3)


def two_lengths(handler: Handler, data: bytes | None) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "10")
    handler.send_header("Content-Length", "20")
    handler.end_headers()
    handler.wfile.write(b"x" * 20)


def unasked_304(handler: Handler, data: bytes | None) -> None:
    """`Not modified` to somebody who has nothing yet."""
    handler.send_response(304)
    handler.end_headers()


def unchanged(path: str) -> Attack:
    """The node asks with the tag of what it has, and is told that nothing changed, though it did."""

    def attack(scene: Scene) -> None:
        served: list[bytes] = []

        def answer(handler: Handler, data: bytes | None) -> None:
            assert data is not None
            if not served:
                served.append(data)
                handler.give(data, ETag='"one"')
            elif handler.headers["If-None-Match"] == '"one"':
                handler.send_response(304)
                handler.end_headers()

        url = scene.stack.enter_context(_serving(scene, path, answer))
        client = scene.stack.enter_context(http_client(timeout_s=TIMEOUT_S, answer_s=ANSWER_S))
        scene.shown = HttpFetcher(url, client)
        scene.update()
        assert served
        scene.publish(2)
        scene.lies.clear()

    return attack
