"""Tell AdaptDL's supervisor what a job will need, before the job has run a step.

python examples/adaptdl/send_hints.py URL SUPERVISOR_URL timm/resnet50 A100 default/my-job
"""

from __future__ import annotations

import sys

from perfmodel.adapters.adaptdl import put_hints, sched_hints, step_grid
from perfmodel.adapters.ask import NoAnswerError, Service


def main(url: str, supervisor: str, model: str, accelerator: str, name: str) -> None:
    job = {"model": model, "mode": "training", "batch_size": 1}
    try:
        grid = step_grid(
            Service(url, timeout_s=120.0),
            job,
            accelerator,
            batch_sizes=[32, 64, 128],
            max_replicas=16,
            per_host=4,
        )
    except NoAnswerError as problem:
        print(f"The job starts without hints: {problem}", file=sys.stderr)
        return
    hints = sched_hints(grid, init_batch_size=128, max_batch_size=4096, local_bsz_bounds=(32, 128))
    taken = put_hints(supervisor, *name.split("/"), hints)
    print("taken" if taken else "not taken; the job starts without hints")


if __name__ == "__main__":
    main(*sys.argv[1:])
