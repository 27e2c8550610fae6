"""Time of a matrix, a curve and a table of pairs once the graphs of the jobs are known.

Limits on one core: 300 jobs x 67 placements in 1 s, a curve over 1 to 1,024 accelerators in 5 ms,
and Gavel's table of pairs, 26 scripts beside each of them on 3 kinds at 7 counts, in 5 s, of which
one count is timed.
Predictions on one accelerator are asked for once before (they are kept); what is timed is the
placement floor. Run: ``python benchmarks/placements.py``.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from collections.abc import Callable
from dataclasses import replace

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator import Estimator
from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.estimator.tables.curve import CurveQuestion
from perfmodel.graph.job import Job, job_to_dict
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Mode, Precision

JOBS, PLACEMENTS, COUNTS = 300, 67, 1024
SCRIPTS, PAIRED_KINDS, PAIRS_LIMIT_S = 26, 3, 5.0 / 7
_KINDS = ("A100-SXM4-80GB", "H100-SXM5-80GB", "V100-SXM2-16GB", "T4", "A10")
_FORMS = (
    "{0}", "2x{0}", "4x{0}", "8x{0}", "2x(4x{0})@eth-25g", "2x(8x{0})@ib-100g", "4x(8x{0})@ib-200g",
    "8x(8x{0})@ib-200g", "(1+1+2)x{0}@eth-10g", "16x(8x{0})@ib-400g", "2x(2x{0})@eth-10g",
    "4x(1x{0})@eth-10g", "3x{0}", "6x{0}",
)  # fmt: skip


def main() -> None:
    """Print both times beside their limits."""
    graphs = GraphLibrary(capture=capture_in_process)
    estimator = Estimator(accelerators=Catalog.default(), model=AnalyticalModel(), graphs=graphs)
    jobs = [_job(1 + number) for number in range(JOBS)]
    written = [form.format(kind) for form in _FORMS for kind in _KINDS][:PLACEMENTS]
    placements = [parse_placement(text) for text in written]
    estimator.matrix(jobs, placements)
    took = _best(lambda: estimator.matrix(jobs, placements))
    print(f"matrix {JOBS} x {PLACEMENTS}: {took:.3f} s, {took / 1.0:.2f} of the limit")
    question = CurveQuestion(accelerator=_KINDS[0], counts=tuple(range(1, COUNTS + 1)))
    estimator.curve(jobs[0], question)
    took = _best(lambda: estimator.curve(jobs[0], question))
    print(f"curve 1 to {COUNTS}: {1e3 * took:.1f} ms, {took / 5e-3:.2f} of the limit")
    scripts = [replace(job, script=True) for job in jobs[:SCRIPTS]]
    paired = [
        parse_placement({"nodes": [{"accelerator": kind}], "shared_with": [job_to_dict(job)]})
        for kind in _KINDS[:PAIRED_KINDS]
        for job in jobs[:SCRIPTS]
    ]
    estimator.matrix(scripts, paired)
    took = _best(lambda: estimator.matrix(scripts, paired))
    print(f"pairs {SCRIPTS} x {len(paired)}: {took:.3f} s, {took / PAIRS_LIMIT_S:.2f} of the limit")


def _job(batch_size: int) -> Job:
    return Job(
        model="zoo/resnet50-v1.5",
        mode=Mode.TRAINING,
        batch_size=batch_size,
        precision=Precision.AMP_FP16,
    )


def _best(action: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        started = time.process_time()
        action()
        times.append(time.process_time() - started)
    return min(times)


if __name__ == "__main__":
    main()
