"""Child process that captures jobs: ``python -m perfmodel.estimator.capture_child``.

One line of JSON in, a job; one line of JSON out, followed by the canonical graph. From the third
batch size of a job on, its graphs are derived from a few captures instead of captured anew.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from perfmodel.errors import PerfModelError
from perfmodel.estimator.capture import capture_in_process
from perfmodel.estimator.lru import LruCache
from perfmodel.estimator.step import CapturedStep, job_key
from perfmodel.graph.canonical import to_json
from perfmodel.graph.job import Job
from perfmodel.requests import parse_job

if TYPE_CHECKING:
    from perfmodel.zoo.rebatch import BatchFamily

#: Batch sizes of one job that are captured before a family pays, which takes three captures.
_CAPTURED_FIRST = 2


class _Family:
    """The batch sizes of one job."""

    def __init__(self) -> None:
        self._asked = 0
        self._tokens_per_sample: int | None = None
        self._family: BatchFamily | None = None

    def step(self, job: Job) -> CapturedStep:
        """Capture a job, or derive its graph from captures at other batch sizes."""
        self._asked += 1
        if self._asked <= _CAPTURED_FIRST:
            step = capture_in_process(job)
            # The number of tokens of a sample does not depend on how many samples there are.
            self._tokens_per_sample = step.tokens_per_sample
            return step
        if self._family is None:
            from perfmodel.zoo.rebatch import BatchFamily

            self._family = BatchFamily(job)
        return CapturedStep(
            graph=self._family.at(job.batch_size), tokens_per_sample=self._tokens_per_sample
        )


_FAMILIES: LruCache[str, _Family] = LruCache(64)


def _step(job: Job) -> CapturedStep:
    key = job_key(replace(job, batch_size=1))
    family = _FAMILIES.get(key)
    if family is None:
        family = _Family()
    step = family.step(job)
    _FAMILIES.put(key, family)
    return step


def main() -> None:
    """Answer until the input ends."""
    # Libraries print; what they print must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        _answer(orjson.loads(line), answers)


def _answer(job: dict[str, Any], answers: BinaryIO) -> None:
    canonical = b""
    try:
        step = _step(parse_job(job))
    except PerfModelError as error:
        fields = {name: value for name, value in vars(error).items() if not name.startswith("_")}
        head: dict[str, Any] = {"error": type(error).__name__, "fields": fields}
    else:
        canonical = to_json(step.graph)
        head = {"tokens_per_sample": step.tokens_per_sample, "size_bytes": len(canonical)}
    answers.write(orjson.dumps(head) + b"\n" + canonical)
    answers.flush()


if __name__ == "__main__":
    main()
