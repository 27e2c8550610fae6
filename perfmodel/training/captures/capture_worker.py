"""Child process that makes sketches.

One line of JSON in: a job. One line of JSON out: ``{"error": "", "message": "", "size": ...}`` with
the size of the sketch, whose bytes come next; or the class and message of what went wrong.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import numpy as np
import orjson

from perfmodel.features.steps.sketch import step_sketch
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import stated_job
from perfmodel.placement.memory.memory import peak_tensor_bytes
from perfmodel.store.sketches import packed
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
    # Libraries print; what they print must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        content, error, message = b"", "", ""
        try:
            content = packed(sketch_arrays(stated_job(orjson.loads(line))))
        # Any failure of one model, of whatever library, is an answer about that model.
        except Exception as problem:
            error, message = type(problem).__name__, str(problem)
        facts = {"error": error, "message": message, "size": len(content)}
        answers.write(orjson.dumps(facts) + b"\n" + content)
        answers.flush()


if __name__ == "__main__":
    main()
