"""What RPC mode writes between the events: responses and requests of the extension UI.

A response never makes a row, whatever it repeats (`get_messages` repeats whole sessions). It tells only which session
the stream is in: RPC output has no header, and nothing but the responses says that a fork or a new session began.
"""

from __future__ import annotations

from typing import Any, Final

from pimetrics.decoding import fields
from pimetrics.events import Event, ModelChanged, SessionAnswered, SessionSwitched

_SWITCHES: Final = frozenset({"fork", "clone", "new_session", "switch_session"})


def response(raw: dict[str, Any]) -> Event | None:
    """Read a `response` record."""
    if raw.get("success") is not True:
        return None
    data = raw.get("data")
    body: dict[str, Any] = data if type(data) is dict else {}
    command = fields.text(raw.get("command"))
    if command in _SWITCHES:
        return None if body.get("cancelled") is True else SessionSwitched()
    if command == "set_model":
        return ModelChanged(fields.text(body.get("provider")), fields.text(body.get("id")), None)
    session_id = fields.text(body.get("sessionId"))
    return None if session_id is None else SessionAnswered(session_id)
