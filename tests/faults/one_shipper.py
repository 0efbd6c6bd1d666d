"""The life of one shipper, as a process that may be killed at any time."""

from __future__ import annotations

import random
import time
from pathlib import Path

from pimetrics.shipping.client import Client, target
from pimetrics.shipping.memory import Memory
from pimetrics.shipping.shipper import Shipper, TryLaterError


def ship_until_done(url: str, token: Path, memory: Path, path: Path, team: str) -> None:
    """Deliver one file until all of it is there."""
    there = target(url, token, None, None)
    over = path.with_suffix(".end")
    shipper = Shipper(
        Client(there, timeout=10), Memory(url, memory), labels={"team": team}, is_over=lambda _path: over.exists()
    )
    rnd = random.Random()
    while True:
        try:
            ended = over.exists()
            if shipper.ship(path) and ended:
                return
        except TryLaterError:
            time.sleep(rnd.uniform(0.1, 0.5))
        else:
            time.sleep(rnd.uniform(0.05, 0.3))
