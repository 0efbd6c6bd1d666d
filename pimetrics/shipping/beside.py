"""Delivery while pi runs, in a thread of its own: nothing waits for it, and it may be left in the midst of anything."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pimetrics.errors import PimetricsError, SourceError
from pimetrics.shipping.shipper import Pauses, RefusedError, Shipper, TryLaterError
from pimetrics.sources.paths import is_session_name

EVERY_SECONDS: Final = 1.0
"""How often the recording is looked at while pi writes it."""

_LEFTOVER_SECONDS: Final = 5.0


class Beside:
    """Delivers one recording as it grows, and beside it what earlier runs have left in its folder.

    Args:
        shipper: Makes what delivers; called in the thread, since that alone costs time.
        recording: The file; it may not be there yet.
        every: See `EVERY_SECONDS`.
    """

    def __init__(self, shipper: Callable[[], Shipper], recording: Path, *, every: float = EVERY_SECONDS) -> None:
        self._make = shipper
        self._recording = recording
        self._every = every
        self._pauses = Pauses()
        self._ending = threading.Event()
        self._done = threading.Event()
        self._until = 0.0
        self._skip: set[Path] = set()
        self._all_there = False
        self.trouble = ""
        """Why the last attempt failed; empty when it worked."""
        self._thread = threading.Thread(target=self._run, name="delivery", daemon=True)
        self._thread.start()

    def finish(self, within: float) -> bool:
        """Pi has ended and the recording is closed: deliver the rest of it; return whether it is all there.

        A receiver that was away before gets one attempt more, and is not waited for.

        Args:
            within: Seconds that this may take at most.
        """
        self._until = time.monotonic() + within
        self._ending.set()
        return self._done.wait(within) and self._all_there

    def _run(self) -> None:
        try:
            shipper = self._make()
            while not self._ending.is_set():
                worked = self._ship(shipper, self._recording) and self._ship_leftover(shipper)
                self._ending.wait(self._every if worked else self._pauses.next(self._asked))
            away = bool(self.trouble)
            while not self._ship(shipper, self._recording, to_its_end=True):
                left = self._until - time.monotonic()
                if away or not self.trouble or left <= 0 or self._recording in self._skip:
                    break
                time.sleep(min(left, self._pauses.next(self._asked)))
            else:
                self._all_there = True
        except PimetricsError as error:
            self.trouble = str(error)
        finally:
            self._done.set()

    _asked: float | None = None

    def _ship(self, shipper: Shipper, path: Path, *, to_its_end: bool = False) -> bool:
        """Deliver what there is of a file; false when it was not possible."""
        since = time.monotonic()

        def leave() -> bool:
            if path == self._recording:
                return to_its_end and time.monotonic() >= self._until
            return self._ending.is_set() or time.monotonic() - since > _LEFTOVER_SECONDS

        self._asked = None
        try:
            done = shipper.ship(path, leave)
        except TryLaterError as error:
            self.trouble, self._asked = str(error), error.wait
            return False
        except (RefusedError, SourceError) as error:
            self.trouble = str(error)
            self._skip.add(path)
            return False
        self.trouble = ""
        self._pauses.worked()
        return done or not to_its_end

    def _ship_leftover(self, shipper: Shipper) -> bool:
        """Deliver one more of the recordings that others have left, oldest first."""
        for path in sorted(self._recording.parent.iterdir()) if self._recording.parent.is_dir() else ():
            if path in self._skip or path == self._recording or not is_session_name(path.name):
                continue
            self._skip.add(path)
            return self._ship(shipper, path)
        return True
