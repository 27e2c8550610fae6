"""Measures on a device that is made up, for ``test_phases.py``; see :mod:`asynchronous_device`.

Each line that comes in is ``[device, batch sizes, beside, timeout in seconds]``; each that goes out
has the sizes that were measured and the failures by size. What measures is forked from a server,
and that of the tests has no such device: so this process has a server of its own.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from multiprocessing import forkserver, set_forkserver_preload
from typing import Any


def measure(device: str, sizes: list[int], beside: int, timeout_s: float) -> dict[str, Any]:
    """Measure jobs of these sizes, and return what came of them."""
    from asynchronous_device import LOCK, PHASES
    from test_profiling import DEVICE, settings_in

    from perfmodel.graph.job import Job
    from perfmodel.profilers.profiling import profile_jobs
    from perfmodel.store.profiles import ProfileStore

    store = ProfileStore(PHASES / "profiles")
    profile_jobs(
        [Job(model="zoo/mlp", batch_size=size) for size in sizes],
        store=store,
        device=DEVICE,
        settings=replace(
            settings_in(PHASES, timeout_s=timeout_s), device=device, lock_path=LOCK, threads=2
        ),
        retry_failed=True,
        beside=beside,
    )
    failed = {one["job"]["batch_size"]: one for one in store.failures(DEVICE.name).values()}
    return {"measured": sorted(step.batch_size for step in store.steps()), "failed": failed}


if __name__ == "__main__":
    set_forkserver_preload(["asynchronous_device"])
    forkserver.ensure_running()
    for line in sys.stdin:
        print(json.dumps(measure(*json.loads(line))), flush=True)
