"""A network of the tests' own: connections to one address reach the receivers behind it in turn, and break at random."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Sequence
from typing import Self


class Network:
    """A TCP proxy in a thread of its own; a context manager.

    Args:
        backends: Gives the ports that are behind it now; those of receivers that are away may be among them.
        seed: Of what happens to connections.
        breaking: Share of connections that break somewhere in the middle.
    """

    def __init__(self, backends: Callable[[], Sequence[int]], seed: int, breaking: float = 0.0) -> None:
        self._backends = backends
        self._rnd = random.Random(seed)
        self.breaking = breaking
        self.broken = 0
        self.port = 0
        self._turn = 0
        self._up = True
        self._open: set[asyncio.StreamWriter] = set()
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """End every connection, and let none through."""
        self._loop.call_soon_threadsafe(self._cut)

    def mend(self) -> None:
        """Let connections through again."""
        self._loop.call_soon_threadsafe(setattr, self, "_up", True)

    def _cut(self) -> None:
        self._up = False
        for writer in self._open:
            writer.transport.abort()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1000)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        self._cut()
        await asyncio.sleep(0)
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there: asyncio.StreamWriter | None = None
        self._open.add(writer)
        try:
            if not self._up:
                return
            ports = self._backends()
            self._turn += 1
            back, there = await asyncio.open_connection("127.0.0.1", ports[self._turn % len(ports)])
            self._open.add(there)
            left = [self._rnd.randrange(400_000) if self._rnd.random() < self.breaking else 1 << 60]
            pumps = [
                asyncio.ensure_future(self._pump(one, other, left)) for one, other in ((reader, there), (back, writer))
            ]
            _, waiting = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for each in waiting:
                each.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            return
        finally:
            for each in (writer, there):
                if each is not None:
                    each.transport.abort()
                    self._open.discard(each)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: list[int]) -> None:
        while chunk := await reader.read(16384):
            part = chunk[: left[0]]
            left[0] -= len(part)
            writer.write(part)
            await writer.drain()
            if not left[0]:
                self.broken += 1
                return
