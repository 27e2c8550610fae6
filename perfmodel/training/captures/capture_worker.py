"""Child process that makes sketches; its argument is the folder.

One line of JSON in: ``{"key": ..., "job": {...}}``. One line of JSON out: ``{"error": "",
"message": ""}`` once the sketch lies in the folder, or the class and message of what went wrong.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from perfmodel.features.steps.sketch import step_sketch
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import stated_job
from perfmodel.placement.memory.memory import peak_tensor_bytes
from perfmodel.store.sketches import SketchFiles
from perfmodel.zoo.resolve import capture_job


def sketch_arrays(job: Job) -> dict[str, Any]:
    """Capture a job and return its sketch as arrays, with family and peak of memory.

    Returns
    -------
    dict of str to ndarray
        Fields of a StepSketch, ``family``, ``peak_tensor_bytes`` and ``parameter_count``.
    """
    graph = capture_job(job)
    arrays = step_sketch(graph).to_arrays()
    arrays["family"] = np.array(graph.source["family"], dtype=np.str_)
    arrays["peak_tensor_bytes"] = np.array(peak_tensor_bytes(graph))
    arrays["parameter_count"] = np.array(graph.parameter_count)
    return arrays


def main() -> None:
    """Make sketches until the input ends."""
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    files = SketchFiles(Path(sys.argv[1]))
    # Libraries print; what they print must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        request = orjson.loads(line)
        answer = {"error": "", "message": ""}
        try:
            files.write(request["key"], sketch_arrays(stated_job(request["job"])))
        # Any failure of one model, of whatever library, is an answer about that model.
        except Exception as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        answers.write(orjson.dumps(answer) + b"\n")


if __name__ == "__main__":
    main()
