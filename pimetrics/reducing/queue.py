"""Messages that wait for the agent while it works: one row a change of a queue's depth."""

from __future__ import annotations

from pimetrics.events import QueueUpdate
from pimetrics.reducing.scene import Scene


class Queue:
    """Reduces queue updates."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.depths: dict[str, int] = {}

    def update(self, event: QueueUpdate) -> None:
        """The queues are as the event says."""
        for queue, depth in (("steering", event.steering), ("follow_up", event.follow_up)):
            if self.depths.get(queue, 0) == depth:
                continue
            self.depths[queue] = depth
            name = ("queue", self._scene.anchor, queue, depth)
            key = (*name, self._scene.number(name))
            values = self._scene.when(event.received_ms) | {"queue": queue, "depth": depth}
            self._scene.emit("queue", key, values, in_prompt=False)

    def close(self) -> None:
        """The source is over: nothing waits any more."""
        self.depths.clear()
