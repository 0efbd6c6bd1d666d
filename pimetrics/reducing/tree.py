"""What a session file says beyond its messages: the session itself, its prompts and its turns.

Files do not say when work began or ended, so a prompt is a user message that was submitted after the agent's last
message was written; one submitted earlier was queued while the agent worked (steering or follow-up) and belongs to
the prompt before it.
"""

from __future__ import annotations

from typing import Any

from pimetrics import keys
from pimetrics.events import Header, MessageEnd, ModelChanged, SessionNamed, ThinkingLevelChanged
from pimetrics.reducing.scene import Moment, Scene, seconds

_OUTCOMES = {"error": "error", "aborted": "aborted"}


class Tree:
    """Reduces headers, and the prompts and turns of session files."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._version: int | None = None
        self._parent: str | None = None
        self._name: str | None = None
        self._named_at: int | None = None
        self._given: tuple[Any, ...] | None = None
        self._prompts: dict[keys.Key, tuple[dict[str, Any], int | None, int]] = {}

    def header(self, event: Header) -> None:
        """A source begins."""
        self._version, self._parent = event.version, event.parent_session
        self._name = self._named_at = None
        self._given = None
        self._prompts = {}
        self._scene.see_time(event.time)

    def named(self, event: SessionNamed) -> None:
        """The user gave the session a name."""
        self._name = event.name
        self._named_at = event.entry.time if event.entry else self._scene.last_time

    def model(self, event: ModelChanged) -> None:
        """Another model is in force."""
        self._scene.here = self._scene.here._replace(provider=event.provider, model=event.model, response_model=None)

    def thinking(self, event: ThinkingLevelChanged) -> None:
        """Another thinking level is in force."""
        self._scene.here = self._scene.here._replace(thinking=event.level)

    def before(self, event: MessageEnd) -> bool:
        """Whether a user message of a file begins a prompt; to be asked before it becomes the anchor."""
        ended = self._scene.here.ended
        submitted = event.message.timestamp
        return ended is None or submitted is None or submitted >= ended

    def message(self, event: MessageEnd, moment: Moment, *, is_prompt: bool) -> None:
        """A message of a session file."""
        scene, entry = self._scene, event.entry
        message = event.message
        if message.role == "user" and is_prompt:
            prompt_id = keys.row_id("prompts", moment.key)
            scene.here = scene.here._replace(prompt=moment.key, prompt_id=prompt_id)
            when = {"time": moment.time, "time_source": moment.time_source}
            self._prompts[moment.key] = (when, None, 0)
            scene.emit("prompts", moment.key, dict(when), entry.id if entry else None, in_prompt=False)
            return
        prompt = scene.here.prompt
        known = self._prompts.get(prompt) if prompt is not None else None
        if prompt is not None and known is not None:
            ended = entry.time if entry else None
            self._prompts[prompt] = (known[0], ended, known[2] + (message.role == "assistant"))
        if message.role == "assistant":
            scene.emit(
                "turns",
                moment.key,
                {
                    "time": moment.time,
                    "time_source": moment.time_source,
                    "provider": message.provider,
                    "model": message.response_model or message.model,
                    "outcome": _OUTCOMES.get(message.stop_reason or "", "ok"),
                    "tools": len(message.calls),
                },
                entry.id if entry else None,
            )

    def close(self) -> None:
        """The source is over: the prompts of a file are as long as the entries say."""
        for key, (when, ended, turns) in self._prompts.items():
            took = seconds(when["time"], ended)
            values = when | {
                "turns": turns,
                "duration_s": took,
                "duration_source": None if took is None else "entry",
            }
            self._scene.emit("prompts", key, values, in_prompt=False)
        self._prompts = {}

    def session(self, origin: str) -> None:
        """Give out what is known of the session, when that has changed."""
        scene = self._scene
        part = scene.part
        if part.session_id is None:
            return
        known = (part.session_id, part.cwd, self._name, scene.first_time, scene.last_time, origin)
        if known == self._given:
            return
        self._given = known
        first = part.time if part.time is not None else scene.first_time
        known_cwd = origin != "rpc"  # RPC output names no working directory
        scene.emit(
            "sessions",
            keys.session_key(part.session_id, part.cwd) if known_cwd else keys.open_key((part.session_id,), 1),
            {
                "time": first,
                "time_source": "message" if first is not None else None,
                "parent_session_id": _session_of(self._parent),
                "cwd": part.cwd,
                "name": self._name,
                "named_at": self._named_at,
                "version": self._version,
                "origin": origin,
                "first_time": first,
                "last_time": scene.last_time,
            },
            in_prompt=False,
        )


def _session_of(parent: str | None) -> str | None:
    """Return the id in a parent's path (`TIME_ID.jsonl`), or the file name where pi's form is not kept."""
    if not parent:
        return None
    name = parent.replace("\\", "/").rpartition("/")[2]
    stem, _, ending = name.rpartition(".")
    if ending == "jsonl" and "_" in stem:
        return stem.rpartition("_")[2]
    return name
