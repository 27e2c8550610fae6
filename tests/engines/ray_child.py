"""Tasks and captures on a real Ray cluster of this machine; run by an interpreter with Ray.

``python ray_child.py FOLDER``; prints what came of it as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from perfmodel.engines.ray_tasks import RayTasks
from perfmodel.engines.task_engine import TaskEngine
from perfmodel.errors import MissingExtraError, TrainingError
from perfmodel.graph.job import Job
from perfmodel.training.captures.capture_pool import CapturePool
from perfmodel.training.training_engine import made_with, opened_engine

JOB = Job(model="timm/test_resnet", batch_size=2)


def dying(folder: Path, task: int) -> int:
    with (folder / f"begun-{task}").open("a") as file:
        file.write("x")
    if task == 1 and (folder / "begun-1").read_text() == "x":
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def lost(shared: None, task: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refusing(shared: None, task: int) -> None:
    raise MissingExtraError("This", extra="train")


def own_process() -> dict[str, str]:
    return {"process": str(os.getpid())}


def error_of(engine: TaskEngine, function: Any) -> str:
    try:
        list(engine.run(function, None, [0]))
    except (TrainingError, MissingExtraError) as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def main() -> None:
    folder = Path(sys.argv[1])
    with opened_engine("ray") as engine:
        import ray

        ended = dict(engine.run(dying, folder, [0, 1, 2]))
        told = {
            "elsewhere": os.getpid() not in ended.values() and sorted(ended),
            "lost": error_of(RayTasks(ray, made_with, retries=0), lost),
            "refused": error_of(engine, refusing),
            "other": error_of(RayTasks(ray, own_process), refusing),
            "failures": len(CapturePool(folder / "far", engine=engine).run({"key": JOB})),
        }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
