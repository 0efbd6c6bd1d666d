"""A short run of the crash model; `python -m tests.faults.crash_model STEPS [SEED]` runs a longer one."""

from __future__ import annotations

import os
import random

from tests.faults.crash_model import Model


def test_random_work_and_faults_add_up(tmp_path):
    """Appends, rotations, cuts, kills inside the code, full disks, clock jumps: sums stay exact (the seed is printed)."""
    seed = int(os.environ.get("CRASH_SEED", random.randrange(10**6)))
    print(f"seed {seed}")
    model = Model(tmp_path, seed)
    model.run(int(os.environ.get("CRASH_STEPS", "150")))
    assert model.truth["requests"] > 0
    assert model.steps["kill"] > 0
