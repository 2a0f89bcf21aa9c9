"""A log, or a witness of it, on a free port of this machine: `python -m bench.log_server log|w0|w1 DIR [URL URL]`.

Prints its URL, and stops when its standard input is closed. The keys are the same at each run. A log with no witness
asks none. The application and the server are those of `interlock mesh serve`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from interlock.base.clock import SystemClock
from interlock.base.keys import Ed25519Signer, MlDsaSigner
from interlock.node.http import Listen, serve
from interlock.node.roles import log, witness
from interlock.node.tokens import Grant, TokenTable, token_hash
from interlock.transparency.checkpoint import Cosigner
from interlock.transparency.log import open_log
from interlock.transparency.note import NoteSigner
from interlock.transparency.policy import NONE, Group, Peer, TlogPolicy
from interlock.transparency.witness import Witness

__all__ = ["SIGNER", "TOKEN", "policy"]

SIGNER: Final = NoteSigner("log.example/bench", Ed25519Signer(b"\x01" * 32))
ALSO: Final = Cosigner("log.example/bench", MlDsaSigner(44, b"\x01" * 32))
TOKEN: Final = "ab" * 32


def _pair(name: str) -> list[Cosigner]:
    seed = name.encode("ascii") * 16
    return [Cosigner(f"{name}.example", Ed25519Signer(seed)), Cosigner(f"{name}.example", MlDsaSigner(44, seed))]


def policy(urls: Sequence[str]) -> TlogPolicy:
    """The log's own policy: each witness with both its keys, and all of them demanded."""
    logs = (Peer(SIGNER.key), Peer(ALSO.key))
    if not urls:
        return TlogPolicy(logs)
    witnesses = {f"w{k}-{c.key.kind}": Peer(c.key, url) for k, url in enumerate(urls) for c in _pair(f"w{k}")}
    groups = {f"w{k}": Group(2, tuple(n for n in witnesses if n.startswith(f"w{k}-"))) for k in range(len(urls))}
    return TlogPolicy(logs, witnesses, {**groups, "all": Group(len(urls), tuple(groups))}, "all" if urls else NONE)


def _run(role: str, directory: Path, urls: Sequence[str]) -> None:
    stop = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=wait, daemon=True).start()

    def ready(url: str) -> None:
        print(url, flush=True)

    if role == "log":
        with open_log(directory, SIGNER, [ALSO]) as held:
            app = log.app(held, policy(urls), tokens=TokenTable(lambda: {"bench": Grant(token_hash(TOKEN))}))
            serve(app, Listen(), ready=ready, stop=stop)
    else:
        known = {SIGNER.name: [SIGNER.key, ALSO.key]}
        serve(witness.app(Witness(directory, _pair(role), known, SystemClock())), Listen(), ready=ready, stop=stop)


if __name__ == "__main__":
    _run(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
