"""Child process that captures jobs: ``python -m perfmodel.estimator.captures.capture_worker``.

One line of JSON in, a job and its budget. Out come a line when the libraries are loaded, from when
on the time of the budget counts, and a line of JSON followed by the canonical graph and its facts.
"""

from __future__ import annotations

import gc
import logging
import math
import os
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, BinaryIO

import orjson

from perfmodel.errors import CaptureBudgetError, CaptureError, PerfModelError
from perfmodel.estimator.captures.confinement import (
    confine,
    limited_memory,
    peak_bytes,
    resident_bytes,
)
from perfmodel.estimator.jobs.capture import capture_in_process, load_libraries, shipped_or_captured
from perfmodel.estimator.jobs.captured_step import CapturedStep
from perfmodel.estimator.jobs.step_facts import facts_to_keep
from perfmodel.graph.by_rule.fitting import rules_through
from perfmodel.graph.by_rule.ruled_graph import RuledGraph
from perfmodel.graph.by_rule.rules import BATCH, Point
from perfmodel.graph.canonical import to_json
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.lru import LruCache
from perfmodel.requests import parse_job
from perfmodel.zoo.shipped.shipped_graphs import is_shipped

logger = logging.getLogger(__name__)

#: Generations of the collector: a capture makes a hundred thousand objects, and what it makes dies
#: with it by its reference counts.
_COLLECT_AFTER = (200_000, 20, 20)
#: A process that holds more than this after a capture ends, and another takes its place.
_MOST_RESIDENT_BYTES = 3 * 1024**3
#: The interpreter says the second where an allocation of its own failed.
_OUT_OF_MEMORY = (MemoryError, SystemError)
#: Captures give way to whoever answers from memory on the same machine.
_NICENESS = 5


_FAMILIES: LruCache[str, BatchFamily] = LruCache(64)


def _step(job: Job, most_nodes: int) -> CapturedStep:
    if is_shipped(job):
        return shipped_or_captured(job, most_nodes=most_nodes)
    key = replace(job, batch_size=1).reference
    family = _FAMILIES.get(key)
    if family is None:
        family = BatchFamily()
    step = family.step(job, most_nodes)
    _FAMILIES.put(key, family)
    return step


def main() -> None:
    """Answer until the input ends, or more memory is held than should be."""
    # Libraries print; what they print must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with suppress(OSError):
        os.nice(_NICENESS)
    # Before anything of a request is looked at.
    confine()
    with ExitStack() as whole_life:
        settled = False
        for line in sys.stdin.buffer:
            question = orjson.loads(line)
            try:
                job = parse_job(question["job"])
            except PerfModelError as error:
                # Whoever asks made the job itself, perhaps at a batch that no caller may state.
                answers.write(b"{}\n" + orjson.dumps({**_described(error), "ends": False}) + b"\n")
                answers.flush()
                continue
            if not settled and not is_shipped(job):
                with suppress(PerfModelError):  # a library that is missing is named by the capture
                    load_libraries(job)
                _settle(whole_life)
                settled = True
            answers.write(b"{}\n")
            answers.flush()
            if _answer(job, question["budget"], answers):
                return


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


def _answer(job: Job, budget: Mapping[str, Any], answers: BinaryIO) -> bool:
    """Write what came of a job; returns whether this process is of no use any more."""
    began, held = time.monotonic(), resident_bytes()
    canonical, facts, failed = b"", b"", False
    try:
        with limited_memory(budget["memory_bytes"]):
            step = _step(job, budget["nodes"])
            canonical = to_json(step.graph)
            facts = facts_to_keep(step.graph, canonical) or b""
    except Exception as error:  # whatever a library makes of a configuration
        failed = _is_of_memory(error)
        head = _described(_over_memory(job, budget) if failed else _refusal(job, error))
        canonical = b""
    else:
        head = {
            "tokens_per_sample": step.tokens_per_sample,
            "size_bytes": len(canonical),
            "facts_bytes": len(facts),
            "used": {
                "time_s": time.monotonic() - began,
                "memory_bytes": max(0, peak_bytes() - held),
                "nodes": len(step.graph.nodes),
            },
        }
    ends = failed or resident_bytes() > _MOST_RESIDENT_BYTES
    answers.write(orjson.dumps({**head, "ends": ends}) + b"\n")
    answers.write(canonical)
    answers.write(facts if canonical else b"")
    answers.flush()
    return ends


def _refusal(job: Job, error: Exception) -> PerfModelError:
    if isinstance(error, PerfModelError):
        return error
    logger.error("capturing %s failed", job.label, exc_info=error)
    return CaptureError(
        f"{job.label} cannot be captured as it is configured: {type(error).__name__}. Capture it "
        "on your side and register its graph.",
        pointer="/job",
    )


def _described(error: BaseException) -> dict[str, Any]:
    fields = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    return {"error": type(error).__name__, "fields": fields}


def _is_of_memory(error: BaseException | None) -> bool:
    while error is not None:
        said = str(error)
        if isinstance(error, _OUT_OF_MEMORY) or "allocate memory" in said or "bad_alloc" in said:
            return True
        error = error.__cause__ or error.__context__
    return False


def _over_memory(job: Job, budget: Mapping[str, Any]) -> CaptureBudgetError:
    return CaptureBudgetError(
        f"Capturing {job.label} needs more memory than its budget of "
        f"{budget['memory_bytes']} bytes. State more in capture_budget, as far as this service "
        "allows it, or capture the model on your side and register its graph.",
        pointer="/job",
    )


#: Batch sizes of one job that are captured: two for the lines, one to check them.
_CAPTURED_FIRST = 3


class BatchFamily:
    """The batch sizes of one job."""

    def __init__(self) -> None:
        self._captured: dict[int, Graph] = {}
        self._tokens_per_sample: int | None = None
        self._rules: RuledGraph | None = None
        #: What every batch size that was captured is a multiple of; 0 until there are enough.
        self._unit = 0

    def step(self, job: Job, most_nodes: int) -> CapturedStep:
        """Capture a job, or derive its graph from captures at other batch sizes."""
        size = job.batch_size
        # Programs may treat odd batches, or a single sample, in another way than those that were
        # seen; multiples of what all of those have in common they do not.
        if self._rules is not None and size % self._unit == 0:
            graph = self._rules.at(size)
            return CapturedStep(graph=graph, tokens_per_sample=self._tokens_per_sample)
        step = capture_in_process(job, most_nodes=most_nodes)
        # The number of tokens of a sample does not depend on how many samples there are.
        self._tokens_per_sample = step.tokens_per_sample
        if size > 1 and self._unit == 0:
            self._captured[size] = step.graph
            if len(self._captured) == _CAPTURED_FIRST:
                self._fit()
        return step

    def _fit(self) -> None:
        captured: dict[Point, Graph] = {
            (size,): graph for size, graph in sorted(self._captured.items())
        }
        self._rules = rules_through(captured, (BATCH,))
        self._unit = math.gcd(*self._captured)
        self._captured = {}


if __name__ == "__main__":
    main()
