"""Child process that captures jobs: ``python -m perfmodel.estimator.jobs.capture_child``.

One line of JSON in, a job; one line of JSON out, followed by the canonical graph and its facts.
Once three batch sizes of a job were captured, others are derived from them, not captured anew.
"""

from __future__ import annotations

import gc
import math
import os
import sys
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from perfmodel.errors import PerfModelError
from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.estimator.jobs.captured_step import CapturedStep
from perfmodel.estimator.jobs.step_facts import facts_to_keep
from perfmodel.graph.canonical import to_json
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.graph.job_reference import job_reference
from perfmodel.lru import LruCache
from perfmodel.requests import parse_job

if TYPE_CHECKING:
    from perfmodel.zoo.rebatch import Stencil

#: Batch sizes of one job that are captured: two for the lines, one to check them.
_CAPTURED_FIRST = 3
#: Generations of the collector: a capture makes a hundred thousand objects, and what it makes dies
#: with it by its reference counts.
_COLLECT_AFTER = (200_000, 20, 20)


class _Family:
    """The batch sizes of one job."""

    def __init__(self) -> None:
        self._captured: dict[int, Graph] = {}
        self._tokens_per_sample: int | None = None
        self._stencil: Stencil | None = None
        #: What every batch size that was captured is a multiple of; 0 until there are enough.
        self._unit = 0

    def step(self, job: Job) -> CapturedStep:
        """Capture a job, or derive its graph from captures at other batch sizes."""
        size = job.batch_size
        # Programs may treat odd batches, or a single sample, in another way than those that were
        # seen; multiples of what all of those have in common they do not.
        if self._stencil is not None and size % self._unit == 0:
            graph = self._stencil.at(size)
            return CapturedStep(graph=graph, tokens_per_sample=self._tokens_per_sample)
        step = capture_in_process(job)
        # The number of tokens of a sample does not depend on how many samples there are.
        self._tokens_per_sample = step.tokens_per_sample
        if size > 1 and self._unit == 0:
            self._captured[size] = step.graph
            if len(self._captured) == _CAPTURED_FIRST:
                self._fit()
        return step

    def _fit(self) -> None:
        from perfmodel.zoo.rebatch import stencil_through

        self._stencil = stencil_through(self._captured)
        self._unit = math.gcd(*self._captured)
        self._captured = {}


_FAMILIES: LruCache[str, _Family] = LruCache(64)


def _step(job: Job) -> CapturedStep:
    key = job_reference(replace(job, batch_size=1))
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
    with ExitStack() as whole_life:
        for position, line in enumerate(sys.stdin.buffer):
            _answer(orjson.loads(line), answers)
            if position == 0:
                _settle(whole_life)


def _settle(whole_life: ExitStack) -> None:
    """Make the next captures quicker, now that the libraries are loaded."""
    # They stay; walking through them would double what a capture takes.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    # Without the library, every capture ends in an error that says so.
    with suppress(ModuleNotFoundError):
        from perfmodel.zoo.meta_device import fills_left_out

        whole_life.enter_context(fills_left_out())


def _answer(job: dict[str, Any], answers: BinaryIO) -> None:
    canonical, facts = b"", b""
    try:
        step = _step(parse_job(job))
    except PerfModelError as error:
        fields = {name: value for name, value in vars(error).items() if not name.startswith("_")}
        head: dict[str, Any] = {"error": type(error).__name__, "fields": fields}
    else:
        canonical = to_json(step.graph)
        facts = facts_to_keep(step.graph, canonical) or b""
        head = {
            "tokens_per_sample": step.tokens_per_sample,
            "size_bytes": len(canonical),
            "facts_bytes": len(facts),
        }
    answers.write(orjson.dumps(head) + b"\n")
    answers.write(canonical)
    answers.write(facts)
    answers.flush()


if __name__ == "__main__":
    main()
