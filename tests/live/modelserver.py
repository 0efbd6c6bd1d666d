"""A scripted model on loopback: it speaks as much of OpenAI's streaming chat completions as pi needs.

Requests that offer tools take the next step of `turns`; requests without tools are pi's summaries (compactions, branch
summaries) and take the next of `summaries`. A request that finds no step is answered 400 and noted, so that a test
whose script does not fit fails with a reason instead of running on with made-up answers.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

PIECE_CHARS = 24
"""Characters in one delta: short enough that every answer comes in several."""


@dataclass(frozen=True)
class Answer:
    """A streamed answer.

    Attributes:
        text: What the model says.
        calls: Tool calls as (tool, arguments).
        tokens: Tokens sent, cached ones excluded.
        cached: Tokens read from the cache.
        output: Tokens generated.
    """

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    tokens: int = 100
    cached: int = 0
    output: int = 10


@dataclass(frozen=True)
class Failure:
    """An HTTP error in place of an answer."""

    status: int
    message: str
    kind: str = "api_error"


Step = Answer | Failure


class ModelServer:
    """Serves the script on a free port of 127.0.0.1 while the context is open."""

    def __init__(self) -> None:
        self.turns: deque[Step] = deque()
        self.summaries: deque[Step] = deque()
        self.unexpected: list[str] = []
        self._lock = threading.Lock()
        self._served = 0
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        """Base address, as `baseUrl` in pi's models.json."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def script(self, turns: Iterable[Step], summaries: Iterable[Step] = ()) -> None:
        """Replace what is left of the script."""
        with self._lock:
            self.turns, self.summaries = deque(turns), deque(summaries)
            self.unexpected.clear()

    def left(self) -> dict[str, int]:
        """Return the steps that nobody asked for and the requests that found none: all zero when the script fitted."""
        with self._lock:
            return {
                "turns": len(self.turns),
                "summaries": len(self.summaries),
                "unexpected": len(self.unexpected),
            }

    def take(self, request: dict[str, Any]) -> tuple[int, Step]:
        """Return the number of this request and its step."""
        name = "turns" if request.get("tools") else "summaries"
        with self._lock:
            self._served += 1
            steps = self.turns if name == "turns" else self.summaries
            if steps:
                return self._served, steps.popleft()
            self.unexpected.append(name)
            return self._served, Failure(400, f"the script has no more {name}", "invalid_request_error")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            number, step = server.take(request)
            if isinstance(step, Failure):
                self._fail(step)
                return
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            try:
                for chunk in chunks(step, number, request["model"]):
                    self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
                    self.wfile.flush()
                self.wfile.write(b"data: [DONE]\n\n")
            except ConnectionError:
                # pi hung up in mid-answer: that is an abort, which is its right
                self.close_connection = True

        def _fail(self, step: Failure) -> None:
            body = json.dumps({"error": {"type": step.kind, "message": step.message}}).encode()
            self.send_response(step.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            # pi's own retries are what is looked at; the SDK below pi would hide a failure by trying again itself
            self.send_header("x-should-retry", "false")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing: the tests' output is not an access log."""

    return Handler


def chunks(answer: Answer, number: int, model: str) -> Iterator[dict[str, Any]]:
    """Yield the answer as `chat.completion.chunk` objects, usage last."""
    head: dict[str, Any] = {
        "id": f"chatcmpl-{number:04d}",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": model,
    }

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(answer.text):
        yield chunk({"content": piece})
    for index, (tool, arguments) in enumerate(answer.calls):
        call = {"index": index, "id": f"call_{number}_{index}", "type": "function"}
        yield chunk({"tool_calls": [call | {"function": {"name": tool, "arguments": ""}}]})
        for piece in _pieces(json.dumps(arguments)):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if answer.calls else "stop")
    sent = answer.tokens + answer.cached
    usage = {
        "prompt_tokens": sent,
        "completion_tokens": answer.output,
        "total_tokens": sent + answer.output,
        "prompt_tokens_details": {"cached_tokens": answer.cached},
    }
    yield head | {"choices": [], "usage": usage}


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), PIECE_CHARS):
        yield text[start : start + PIECE_CHARS]
