"""A mirror that checks nothing and serves whatever lies in a folder; for the demo's attacks.

interlock.node.demo.evil FOLDER --listen-fd N     ends with its standard input
"""

from __future__ import annotations

import argparse
import functools
import http.server
import socket
import sys
import threading

__all__ = ["main"]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing; the attacks are told by whom they did not fool."""


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--listen-fd", type=int, required=True)
    parser.add_argument("--stop-with-stdin", action="store_true")
    args = parser.parse_args()
    handler = functools.partial(_Quiet, directory=args.folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler, bind_and_activate=False)
    server.socket.close()
    server.socket = socket.socket(fileno=args.listen_fd)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    sys.stdin.buffer.read()
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    main()
