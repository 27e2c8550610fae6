"""Measure how long a search over the plans of a transformer takes.

Run ``python benchmarks/plan_search.py``; the goal is 2 s for 64 accelerators.
"""

from __future__ import annotations

import time

from perfmodel.graph.job import Job
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.plans.plan_answer import TransformerTraining
from perfmodel.placement.plans.plan_search import search_plans
from perfmodel.placement.plans.plan_words import plan_words
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Mode, Precision

GOAL_S = 2.0
QUESTIONS = (
    ("7b", "8xA100-SXM4-80GB", 256),
    ("30b", "8x(8xA100-SXM4-80GB)@ib-200g", 512),
    ("70b", "8x(8xH100-SXM5-80GB)@ib-400g", 512),
    ("70b", "32x(8xH100-SXM5-80GB)@ib-400g", 2048),
)


def main() -> None:
    """Print seconds of the clock and of the processor for each question, first call included."""
    for size, written, batch in QUESTIONS:
        training = _training(size)
        start, busy = time.perf_counter(), time.process_time()
        found = search_plans(training, Fabric.of(parse_placement(written)), global_batch=batch)
        wall, cpu = time.perf_counter() - start, time.process_time() - busy
        best = plan_words(found.plans[0].choice) if found.plans else found.why_none
        print(f"mpt-{size} on {written}:")
        print(f"    {found.considered} plans in {wall:.2f} s ({cpu:.2f} s of the processor)")
        print(f"    {best}")
    print(f"goal: {GOAL_S} s for 64 accelerators")


def _training(size: str) -> TransformerTraining:
    job = Job(
        model="zoo/mpt",
        model_kwargs={"size": size},
        mode=Mode.TRAINING,
        precision=Precision.AMP_BF16,
        optimizer="adamw",
    )
    training = TransformerTraining.of(job)
    if training is None:
        raise AssertionError("MPT is a transformer")
    return training


if __name__ == "__main__":
    main()
