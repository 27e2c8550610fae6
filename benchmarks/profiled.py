"""How the installed model answers for steps that were profiled, which it learned nothing of.

    python benchmarks/profiled.py H200-SXM [--models models] [--out profiles] [--each] [--probes 10]
        [--context-bytes 0.67e9]

Every step measured on a device is asked of the model as a bare step under the release of PyTorch
that it ran under, its records unknown.
Printed are mean and median relative errors of step times, mean bias, how many throughputs lie in
their interval, and of predicted memory over what the allocator reserved and the driver's context
takes (``--context-bytes``) the median and the mean distance from 1: of all steps,
of those that the device bounds (busy more than two thirds of the step) and of those that the host
bounds, by mode, precision and basis. A model that was trained or adapted with the records is not
judged by this. ``--probes`` adapts it to so many of the steps, drawn at random three times, and
judges the others before and after.
"""

from __future__ import annotations

import argparse
import math
import random
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel import Estimator, parse_request
from perfmodel.placement.estimate import Estimate
from perfmodel.records import StepRecord
from perfmodel.store.artifacts import latest
from perfmodel.store.profiles import ProfileStore
from perfmodel.training.adapt import adapt_model, usable_probes
from perfmodel.training.learned_steps import read_learned, step_key

#: A step is bound by its host where the device waits longer than this share of it.
HOST_BOUND = 1.0 / 3.0


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A profiled step and its answer."""

    step: StepRecord
    answer: Estimate
    context_bytes: float

    @property
    def ratio(self) -> float:
        """Predicted over measured step time."""
        return self.answer.step_time_s / self.step.step_time_s

    @property
    def inside(self) -> bool:
        """Whether the measured throughput lies in the interval."""
        told = self.answer.throughput
        measured = self.step.batch_size / self.step.step_time_s
        return told.low <= measured <= told.high

    @property
    def idle(self) -> float:
        """Share of the step in which the device waits."""
        return 1.0 - (self.step.device_busy_s or self.step.step_time_s) / self.step.step_time_s

    @property
    def memory_ratio(self) -> float | None:
        """Predicted memory over what the allocator reserved and the context takes."""
        told, measured = self.answer.memory.peak_bytes, self.step.reserved_memory_bytes
        return told / (measured + self.context_bytes) if told and measured else None


def judged(device: str, folder: Path, models: Path, context_bytes: float) -> list[Judged]:
    """Answer for every step of a device that was measured the compiler's usual way."""
    estimator = Estimator.from_folder(models)
    steps = ProfileStore(folder).steps(device)
    return [
        Judged(
            step=step,
            context_bytes=context_bytes,
            answer=estimator.estimate(
                *parse_request({"job": _as_run(step), "placement": f"1x{device}"})
            ),
        )
        for step in steps
        if not step.execution
    ]


def _as_run(step: StepRecord) -> dict[str, Any]:
    """Return the job of a step as a bare step under the release that it ran under."""
    release = {"torch": step.provenance.software["torch"]}
    return {**step.job, "script": False, "software": {**step.job.get("software", {}), **release}}


def summed_up(name: str, found: Sequence[Judged]) -> str:
    """Return one line of the table."""
    ratios = np.array([one.ratio for one in found])
    memory = [one.memory_ratio for one in found if one.memory_ratio is not None]
    return (
        f"{name:<24} {len(found):>5} {np.mean(np.abs(ratios - 1)):>7.1%} "
        f"{np.median(np.abs(ratios - 1)):>7.1%} {math.exp(np.log(ratios).mean()) - 1:>+8.1%} "
        f"{np.mean([one.inside for one in found]):>7.1%} "
        f"{(np.median(memory) if memory else math.nan):>9.2f} "
        f"{(np.mean(np.abs(np.array(memory) - 1)) if memory else math.nan):>7.1%}"
    )


def groups(found: Iterable[Judged], key: Callable[[Judged], str]) -> dict[str, list[Judged]]:
    """Return steps by a word each."""
    by: dict[str, list[Judged]] = defaultdict(list)
    for one in found:
        by[key(one)].append(one)
    return dict(sorted(by.items()))


def print_adapted(
    before: Sequence[Judged], device: str, folder: Path, models: Path, n: int
) -> None:
    """Print how the other steps are answered before and after some are taken into account."""
    samples = usable_probes(ProfileStore(folder), device).samples
    for seed in (1, 2, 3):
        some = random.Random(seed).sample(samples, min(n, len(samples)))
        taken = {one.step_time_s for one in some}
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch) / "models"
            shutil.copytree(models, copy)
            adapt_model(latest(copy, "default").folder, some, copy)
            after = judged(device, folder, copy, before[0].context_bytes)
        for word, found in (("before", before), ("after", after)):
            others = [one for one in found if one.step.step_time_s not in taken]
            print(summed_up(f"{word} {len(some)} probes, {seed}", others))
            for name, part in groups(others, bound).items():
                print(summed_up(f"  {name}", part))


def bound(one: Judged) -> str:
    """Return what bounds a step."""
    return "bound by the host" if one.idle > HOST_BOUND else "bound by the device"


def main() -> None:
    """Print how far answers are off."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("device")
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--out", type=Path, default=Path("profiles"), help="folder of the records")
    parser.add_argument("--each", action="store_true", help="print every step, worst first")
    parser.add_argument("--probes", type=int, help="steps that the model is adapted to")
    parser.add_argument("--context-bytes", type=float, default=0.0, help="what the driver takes")
    asked = parser.parse_args()
    found = judged(asked.device, asked.out, asked.models, asked.context_bytes)
    if not found:
        raise SystemExit(f"{asked.out} holds no steps of {asked.device}.")
    version = latest(asked.models, "default").folder
    samples = usable_probes(ProfileStore(asked.out), asked.device).samples
    known = read_learned(version) or frozenset()
    if learned := sum(step_key(one.model, one.step) in known for one in samples):
        print(f"{version.name} has learned from {learned} of these steps: it is not judged by them")
    print(
        f"{'':<24} {'steps':>5} {'error':>7} {'median':>7} {'bias':>8} {'inside':>7} "
        f"{'memory':>9} {'off':>7}"
    )
    print(summed_up("all", found))
    keys: list[Callable[[Judged], str]] = [
        bound,
        lambda one: one.step.mode.value,
        lambda one: one.step.precision.value,
        lambda one: one.answer.basis,
    ]
    for key in keys:
        for name, some in groups(found, key).items():
            print(summed_up(f"  {name}", some))
    if asked.probes:
        print_adapted(found, asked.device, asked.out, asked.models, asked.probes)
    if asked.each:
        for one in sorted(found, key=lambda one: -abs(math.log(one.ratio))):
            step = one.step
            print(
                f"{one.ratio:6.2f} {1e3 * step.step_time_s:8.2f} ms, idle {one.idle:4.0%}, memory "
                f"{one.memory_ratio or math.nan:5.2f}  {step.model} {step.mode} {step.batch_size} "
                f"{step.precision} {step.memory_format} {step.compiler} {one.answer.basis}"
            )


if __name__ == "__main__":
    main()
