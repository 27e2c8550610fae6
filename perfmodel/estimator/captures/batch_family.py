"""The batch sizes of one job: after three captures others are derived, not captured anew."""

from __future__ import annotations

import math

from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.estimator.jobs.captured_step import CapturedStep
from perfmodel.graph.by_rule.fitting import rules_through
from perfmodel.graph.by_rule.ruled_graph import RuledGraph
from perfmodel.graph.by_rule.rules import BATCH, Point
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job

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
