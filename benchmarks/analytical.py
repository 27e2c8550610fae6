"""Judge what answers where nothing was learned of steps: the roofline, or the kernels of a step.

Each published or profiled step is predicted by the analytical model as it stands; by its work, the
roofline of its operators or fused kernels, with time of the host for each; and by the sum of its
kernels as the model ``kernels`` has them (``--kernels``, steps on GPUs). Efficiency and host time
of the latter two are fitted to the steps of all devices but the one that is asked about. Steps are
drawn by a hash of their job; what is not captured yet is captured. All of a device, source, mode,
precision and compiler together weigh as much as those of another. Steps in the lockbox are left
out, or asked alone (``--locked``): the constants of the analytical model were chosen without them.

Run: ``python benchmarks/analytical.py --most 10`` (captures take minutes)
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from held_out.frozen_folds import locks_of

from perfmodel.estimator.kernels.loading import load_kernels
from perfmodel.estimator.single.analytical import (
    EFFICIENCY_RANGE,
    LAUNCH_S,
    TYPICAL_EFFICIENCY,
)
from perfmodel.features.arrays import BoolArray, FloatArray
from perfmodel.features.steps.step import StepSample
from perfmodel.features.steps.step_work import step_work
from perfmodel.importers.published import PublishedStep
from perfmodel.predictors.kernels.kernel_times import KernelModel
from perfmodel.predictors.kernels.step_kernels import step_kernels
from perfmodel.store.profiles import ProfileStore
from perfmodel.training.samples.corpus import build_corpus
from perfmodel.training.samples.profile_corpus import profile_corpus, told_apart
from perfmodel.training.samples.public_data import STEP_FORMATS, read_formats

#: Time of the host for an operator that is tried in each fit.
HOST_S = (0.0, 5e-6, 10e-6, 20e-6, 30e-6)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Steps of one part of the samples: measured times, and the weight of each."""

    samples: Sequence[StepSample]
    measured_s: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, samples: Sequence[StepSample]) -> Judged:
        """Weigh samples: all of a device, source, mode, precision and compiler weigh alike."""
        groups = [_group(sample) for sample in samples]
        sizes = Counter(groups)
        return cls(
            samples=samples,
            measured_s=np.array([sample.step_time_s for sample in samples]),
            weight=np.array([1.0 / sizes[group] for group in groups]),
        )


def main() -> None:
    """Predict and print."""
    given = _arguments()
    samples = _samples(given.data, given.formats, given.profiles, given.most)
    locked = locks_of(samples) != ""
    samples = [one for one, lock in zip(samples, locked, strict=True) if lock == given.locked]
    judged = Judged.of(samples)
    work = step_work([sample.step for sample in samples])
    shares = np.array([TYPICAL_EFFICIENCY, *EFFICIENCY_RANGE])
    stands, slowest, fastest = (work.roofline_s + LAUNCH_S * work.calls) / shares[:, None]
    inside = (fastest <= judged.measured_s) & (judged.measured_s <= slowest)
    _print("the analytical model", judged, stands, inside)
    _print("work, fitted", judged, _left_out(judged, work.roofline_s, work.calls))
    if given.kernels:
        kernels, problems = load_kernels(given.models)
        print(f"kernels: {kernels.version} {' '.join(problems)}")
        on_gpus = np.array([one.step.accelerator.kind == "gpu" for one in samples])
        gpus = Judged.of([one for one, on_gpu in zip(samples, on_gpus, strict=True) if on_gpu])
        kernel_s = np.array([_kernels_s(sample, kernels) for sample in gpus.samples])
        _print("kernels, fitted", gpus, _left_out(gpus, kernel_s, work.calls[on_gpus]))


def _samples(data: Path, formats: Sequence[str], profiles: Path, most: int) -> list[StepSample]:
    steps = [step for one in read_formats(data, formats).values() for step in one.steps]
    published = build_corpus(_drawn(steps, most), progress=print).samples
    own, _ = told_apart(profile_corpus(ProfileStore(profiles)).samples)
    return [*published, *own]


def _group(sample: StepSample) -> tuple[str, ...]:
    step = sample.step
    words = (step.mode.value, step.precision.value, step.compiler.value)
    return (step.accelerator.name, sample.source, *words)


def _drawn(steps: Sequence[PublishedStep], most: int) -> list[PublishedStep]:
    """Return as many of each device, mode, precision and compiler as are wanted."""

    def place(step: PublishedStep) -> bytes:
        return hashlib.sha256(f"{step.job.label} {step.job.batch_size}".encode()).digest()

    taken: Counter[tuple[str, ...]] = Counter()
    kept = []
    for step in sorted(steps, key=place):
        job = step.job
        words = (job.mode.value, job.precision.value, job.compiler.value)
        key = (step.origin.source, step.accelerator, *words)
        taken[key] += 1
        if taken[key] <= most:
            kept.append(step)
    return kept


def _kernels_s(sample: StepSample, model: KernelModel) -> float:
    step = sample.step
    precision = step.accelerator.computed_as(step.precision)
    found = step_kernels(model, step.sketch, step.accelerator, precision)
    return float(step.sketch.count @ found.time_s)


def _left_out(judged: Judged, work_s: FloatArray, calls: FloatArray) -> FloatArray:
    """Return ``(work + host calls) / efficiency`` with both fitted to the other devices."""
    measured, weight = judged.measured_s, judged.weight
    devices = np.array([sample.step.accelerator.name for sample in judged.samples])
    predicted = np.zeros(len(devices))
    for device in np.unique(devices):
        held = devices == device
        fits = []
        for host_s in HOST_S:
            whole = work_s + host_s * calls
            ratio = np.median(measured[~held] / whole[~held])
            error = np.abs(np.log(ratio * whole[~held] / measured[~held])) @ weight[~held]
            fits.append((error, ratio * whole[held]))
        predicted[held] = min(fits, key=lambda fit: fit[0])[1]
    return predicted


def _print(
    name: str, judged: Judged, predicted_s: FloatArray, inside: BoolArray | None = None
) -> None:
    ratio = predicted_s / judged.measured_s
    parts: tuple[tuple[str, Callable[[StepSample], str]], ...] = (
        ("all", lambda _: "all"),
        ("kind", lambda one: one.step.accelerator.kind),
        ("source", lambda one: one.source),
        ("precision", lambda one: one.step.precision.matrix_rate),
        ("compiler", lambda one: one.step.compiler.value),
        ("maker", lambda one: one.step.accelerator.vendor),
        ("lock", lambda one: locks_of([one])[0] or "open"),
        ("device", lambda one: one.step.accelerator.name),
    )
    for _, part in parts:
        keys = np.array([part(sample) for sample in judged.samples])
        for key in np.unique(keys):
            here = keys == key
            own, weight = ratio[here], judged.weight[here] / judged.weight[here].sum()
            error, logs = weight @ np.abs(own - 1), weight @ np.abs(np.log(own))
            covered = "" if inside is None else f"  inside {100 * (weight @ inside[here]):3.0f} %"
            print(
                f"{name:22} {key:18} {len(own):5}  error {100 * error:5.1f} %  "
                f"in logs {logs:.2f}{covered}"
            )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    stated = os.environ.get("PERFMODEL_DATA")
    parser.add_argument("--data", type=Path, default=stated, required=stated is None)
    parser.add_argument("--profiles", type=Path, default=Path("profiles"))
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--formats", nargs="*", default=STEP_FORMATS)
    parser.add_argument("--most", type=int, default=10, help="steps of a device and kind")
    parser.add_argument("--locked", action="store_true", help="ask the lockbox alone")
    parser.add_argument("--kernels", action="store_true", help="the sum of kernels as well")
    return parser.parse_args()


if __name__ == "__main__":
    main()
