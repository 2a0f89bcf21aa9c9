"""A loopback server that plays the model for a real coding agent: it asks for the given tool calls, one by one.

Which call comes next is read off the conversation itself (how many of our tool results it holds), so the server
keeps no turn counter. What the model would have seen of each result is kept in `results`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

__all__ = ["ModelServer", "ToolCall"]

ToolCall = tuple[str, dict[str, object]]


class ModelServer:
    """Serve the Messages API on a free loopback port while the `with` block runs."""

    def __init__(self, calls: list[ToolCall]) -> None:
        self.calls = calls
        self.results: dict[str, str] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def blocks(self, body: dict[str, object]) -> list[dict[str, object]]:
        """The content blocks of the next assistant turn."""
        seen = dict(_tool_results(body))
        self.results.update(seen)
        offered = {tool.get("name") for tool in _dicts(body.get("tools"))}
        turn = len(seen)
        if turn < len(self.calls) and self.calls[turn][0] in offered:
            name, arguments = self.calls[turn]
            return [{"type": "tool_use", "id": f"toolu_{turn}", "name": name, "input": arguments}]
        return [{"type": "text", "text": "all done"}]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self._send(200, b"")

            def do_GET(self) -> None:
                self._send(404, b"{}")

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
                if "count_tokens" in self.path:
                    self._send(200, b'{"input_tokens":10}')
                elif body.get("stream"):
                    events = list(_stream(model.blocks(body), body.get("model")))
                    self._send(200, b"".join(events), "text/event-stream")
                else:
                    self._send(200, json.dumps(_message(model.blocks(body), body.get("model"))).encode())

            def _send(self, status: int, data: bytes, kind: str = "application/json") -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        return Handler


def _dicts(value: object) -> list[dict[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _tool_results(body: dict[str, object]) -> Iterator[tuple[str, str]]:
    for message in _dicts(body.get("messages")):
        for block in _dicts(message.get("content")):
            if block.get("type") == "tool_result" and str(block.get("tool_use_id", "")).startswith("toolu_"):
                yield str(block["tool_use_id"]), json.dumps(block.get("content"))


def _message(blocks: list[dict[str, object]], model: object) -> dict[str, object]:
    reason = "tool_use" if blocks[0]["type"] == "tool_use" else "end_turn"
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "usage": usage}
    return {**head, "content": blocks, "stop_reason": reason, "stop_sequence": None}


def _stream(blocks: list[dict[str, object]], model: object) -> Iterator[bytes]:
    whole = _message(blocks, model)
    yield _event("message_start", message={**whole, "content": [], "stop_reason": None})
    for i, block in enumerate(blocks):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield _event("content_block_start", index=i, content_block=empty)
        yield _event("content_block_delta", index=i, delta=delta)
        yield _event("content_block_stop", index=i)
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=stop, usage={"output_tokens": 5})
    yield _event("message_stop")


def _event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
