"""Run the real step of a job eagerly: its time, its peak memory, its operators."""

from __future__ import annotations

from perfmodel.graph.job import Job
from perfmodel.profilers.measure import MeasureSettings, ProfiledRun
from perfmodel.profilers.operators import join_operators, profile_operators
from perfmodel.profilers.peak_memory import PeakMemory
from perfmodel.profilers.timing import time_steps


def run_eager(job: Job, settings: MeasureSettings) -> ProfiledRun:
    """Build a job on the CPU, time its step, then profile the operators of a few more.

    The graph is captured last: what a capture leaves behind in this process can disturb neither
    the times nor the base line of the memory.

    Raises
    ------
    PerfModelError
        A job that cannot be built or captured.
    """
    import torch

    from perfmodel.zoo.resolve import build_bundle, capture_job, program_of

    torch.set_num_threads(settings.threads)
    memory = PeakMemory()
    bundle = build_bundle(job, device="cpu")
    program = program_of(bundle, job)
    memory.reset()
    timing = time_steps(program.step, settings.policy)
    peak_memory_bytes = memory.peak_bytes()
    events = profile_operators(program.step, steps=settings.profiled_steps)
    graph = capture_job(job)
    return ProfiledRun(
        graph=graph,
        timing=timing,
        peak_memory_bytes=peak_memory_bytes,
        operators=join_operators(graph, events),
        family=bundle.family,
        model=bundle.name,
        notes=f"memory={memory.method}",
    )
