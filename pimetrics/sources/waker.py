"""What wakes the reader before its time: changes that the operating system tells of, and other threads.

Only a waker: what it says is never needed, since a sweep looks at everything anyway (network file systems send no
events, and watches run out). The only import of watchfiles.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterable
from typing import Final

from watchfiles import watch

_LOOK_FOR_FOLDERS_SECONDS: Final = 5.0


class Waker:
    """Sleeps until something happens."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._stop = threading.Event()

    def watch(self, folders: Iterable[str], hint: Callable[[str], None]) -> None:
        """Watch folders, with everything below; those that do not exist yet are waited for.

        Args:
            folders: Their paths.
            hint: Called with the path of each change, from another thread.
        """
        for folder in folders:
            threading.Thread(target=self._watch, args=(folder, hint), daemon=True, name="waker").start()

    def wake(self) -> None:
        """Wake the sleeper; from any thread."""
        self._event.set()

    def wait(self, seconds: float) -> None:
        """Sleep for at most so long."""
        self._event.wait(seconds)
        self._event.clear()

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._event.set()

    def _watch(self, folder: str, hint: Callable[[str], None]) -> None:
        while not self._stop.is_set():
            inode = _inode(folder)
            if inode is not None:
                try:
                    # Its defaults wait 1.6 s for silence and hide what is below .venv, node_modules and .git.
                    for changes in watch(
                        folder,
                        watch_filter=None,
                        debounce=100,
                        step=50,
                        stop_event=self._stop,
                        rust_timeout=2000,
                        yield_on_timeout=True,
                        raise_interrupt=False,
                        ignore_permission_denied=True,
                    ):
                        for _, path in changes:
                            hint(path)
                        if changes:
                            self._event.set()
                        if _inode(folder) != inode:
                            break  # the watch is on a folder that is gone
                except (OSError, RuntimeError):
                    # Out of watches, or the folder went while it was set up; the sweep still looks.
                    if self._stop.wait(_LOOK_FOR_FOLDERS_SECONDS):
                        return
            elif self._stop.wait(_LOOK_FOR_FOLDERS_SECONDS):
                return


def _inode(folder: str) -> int | None:
    try:
        info = os.stat(folder)
    except OSError:
        return None
    return info.st_ino if stat.S_ISDIR(info.st_mode) else None
