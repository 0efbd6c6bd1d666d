"""Settled messages to `messages` and `usage` rows, and what a cut-off answer had reported to unfinished ones.

`message_end` is the record of a message. An answer that began and never ended keeps the usage it last reported, as a
row of its own with `settled` false.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pimetrics import keys
from pimetrics.events import Message, MessageEnd, MessageStart, MessageUpdate, Usage, UsageEntry
from pimetrics.names import error_type
from pimetrics.reducing.scene import Moment, Scene, seconds


def usage_values(usage: Usage) -> dict[str, Any]:
    """Return the columns that a usage object fills."""
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
        "cache_write_1h_tokens": usage.cache_write_1h,
        "reasoning_tokens": usage.reasoning,
        "cost_usd": usage.cost,
        "cost_input_usd": usage.cost_input,
        "cost_output_usd": usage.cost_output,
        "cost_cache_read_usd": usage.cost_cache_read,
        "cost_cache_write_usd": usage.cost_cache_write,
        "cost_reported_usd": usage.cost_reported,
        "cost_invalid": usage.cost_invalid,
        "settled": True,
    }


class Messages:
    """Reduces messages and usage entries."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._open: Callable[[], Message | None] | None = None
        self._reported: Callable[[], Usage | None] | None = None
        self._first_delta: int | None = None

    def start(self, event: MessageStart) -> None:
        """An answer begins; one that is still open was cut off."""
        self.close()
        self._open = event.load

    def update(self, event: MessageUpdate) -> None:
        """Note the usage reported so far and the arrival of the first delta."""
        self._reported = event.load
        if self._first_delta is None and event.is_delta:
            self._first_delta = event.received_ms

    def end(self, event: MessageEnd, moment: Moment) -> None:
        """A message is settled."""
        message = event.message
        if message.role == "assistant":
            self._answer(event, moment)
            self._forget()
            return
        entry_id = event.entry.id if event.entry else None
        values: dict[str, Any] = {
            "time": moment.time,
            "time_source": moment.time_source,
            "role": message.role,
            "content_bytes": message.content_bytes,
            "settled": True,
        }
        if message.usage is not None:
            values["total_tokens"] = message.usage.tokens
        self._scene.emit("messages", moment.key, values, entry_id)
        if message.usage is not None:
            here = self._scene.here
            self._scene.emit(
                "usage",
                moment.key,
                usage_values(message.usage)
                | {
                    "time": moment.time,
                    "time_source": moment.time_source,
                    "operation": "tool",
                    "tool": message.tool,
                    "turn_id": None if here.answer is None else keys.row_id("turns", here.answer),
                    "provider": here.provider,
                    "model": here.model,
                    "response_model": here.response_model,
                },
                entry_id,
            )

    def entry(self, event: UsageEntry) -> None:
        """Paid work that stands in an entry of its own."""
        usage, scene = event.usage, self._scene
        if usage is None:
            return
        name = (event.kind, event.time, (event.provider, event.model), usage)
        key = keys.usage_entry_key(*name, scene.number(("usage", *name)))
        named = event.provider is not None or event.model is not None
        here = scene.here
        scene.emit(
            "usage",
            key,
            usage_values(usage)
            | scene.when(event.received_ms, event.time)
            | {
                "operation": event.operation,
                "provider": event.provider if named else here.provider,
                "model": event.model if named else here.model,
                "response_model": None if named else here.response_model,
            },
            event.entry.id if event.entry else None,
        )

    def close(self) -> keys.Key | None:
        """The open answer, if there is one, will not end: give out what it had reported, and return its name."""
        if self._open is None:
            return None
        message = self._open()
        usage = self._reported() if self._reported else None
        self._forget()
        if message is None:
            return None
        usage = usage or message.usage
        scene = self._scene
        alias = keys.message_alias(message)
        ordinal = scene.settled_like(alias) + 1 + scene.number(("cut", alias))
        key = keys.open_key(alias, ordinal)
        when = {"time": message.timestamp, "time_source": "message"} if message.timestamp else scene.when(None)
        values: dict[str, Any] = when | {
            "role": message.role,
            "provider": message.provider,
            "model": message.response_model or message.model,
            "total_tokens": usage.tokens if usage else None,
            "settled": False,
        }
        scene.emit("messages", key, values)
        if usage is not None:
            scene.emit(
                "usage",
                key,
                usage_values(usage)
                | when
                | {
                    "operation": "turn",
                    "provider": message.provider,
                    "model": message.model,
                    "response_model": message.response_model,
                    "api": message.api,
                    "settled": False,
                },
            )
        return key

    def _answer(self, event: MessageEnd, moment: Moment) -> None:
        message, scene = event.message, self._scene
        entry = event.entry
        entry_id = entry.id if entry else None
        usage = message.usage
        failure = error_type(message.error) if message.stop_reason == "error" else None
        scene.emit(
            "messages",
            moment.key,
            {
                "time": moment.time,
                "time_source": moment.time_source,
                "role": message.role,
                "provider": message.provider,
                "model": message.response_model or message.model,
                "stop_reason": message.stop_reason,
                "error_type": failure,
                "content_bytes": message.content_bytes,
                "total_tokens": usage.tokens if usage else None,
                "settled": True,
            },
            entry_id,
        )
        if usage is None:
            return
        values = usage_values(usage)
        values["time"], values["time_source"] = moment.time, moment.time_source
        values["operation"] = "turn"
        values["provider"], values["model"] = message.provider, message.model
        values["response_model"], values["api"] = message.response_model, message.api
        values["stop_reason"], values["error_type"] = message.stop_reason, failure
        values["thinking_level"] = message.thinking_level or scene.here.thinking
        values["time_to_first_token_s"] = seconds(message.timestamp, self._first_delta)
        values["duration_s"], values["duration_source"] = _duration(event)
        scene.emit("usage", moment.key, values, entry_id)

    def _forget(self) -> None:
        self._open = self._reported = self._first_delta = None


def _duration(event: MessageEnd) -> tuple[float | None, str | None]:
    """Length of a request: as pi reports it, else from arrival, else until its entry was written."""
    message = event.message
    if message.duration_ms is not None:
        return message.duration_ms / 1000, "reported"
    length = seconds(message.timestamp, event.received_ms)
    if length is not None:
        return length, "arrival"
    length = seconds(message.timestamp, event.entry.time if event.entry else None)
    return length, "entry" if length is not None else None
