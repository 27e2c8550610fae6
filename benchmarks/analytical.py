"""Judge what answers where nothing was learned of steps: the roofline, or the kernels of a step.

Each published step is predicted by the analytical model as it stands; by the roofline of its
operators with time of the host for each; and by the sum of its kernels as the model ``kernels`` has
them. Efficiency and host time of the latter two are fitted to the steps of all devices but the one
that is asked about. Steps are drawn by a hash of their job; what is not captured yet is captured.

Run: ``python benchmarks/analytical.py --most 10`` (captures take minutes)
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from perfmodel.estimator.kernels.loading import load_kernels
from perfmodel.estimator.single.analytical import LAUNCH_S, TYPICAL_EFFICIENCY
from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import StepSample
from perfmodel.features.steps.step_table import step_table
from perfmodel.importers.published import PublishedStep
from perfmodel.predictors.kernels.kernel_times import KernelModel
from perfmodel.predictors.kernels.step_kernels import step_kernels
from perfmodel.training.samples.corpus import build_corpus
from perfmodel.training.samples.public_data import read_formats

FORMATS = ("cnn-steps", "dlperf", "deep-learning-examples")
#: Time of the host for an operator that is tried in each fit.
HOST_S = (0.0, 5e-6, 10e-6, 20e-6, 30e-6)


def main() -> None:
    """Predict and print."""
    given = _arguments()
    steps = [s for one in read_formats(given.data, given.formats).values() for s in one.steps]
    samples = [
        sample
        for sample in build_corpus(_drawn(steps, given.most), progress=print).samples
        if sample.step.accelerator.kind == "gpu"
    ]
    kernels, problems = load_kernels(given.models)
    print(f"{len(samples)} steps on GPUs; kernels: {kernels.version} {' '.join(problems)}")
    calls = np.array([sample.step.sketch.count.sum() for sample in samples])
    roofline_s = np.array([_roofline_s(sample) for sample in samples])
    kernel_s = np.array([_kernels_s(sample, kernels) for sample in samples])
    stands = (roofline_s + LAUNCH_S * calls) / TYPICAL_EFFICIENCY
    _print("the analytical model", samples, stands)
    _print("roofline, fitted", samples, _left_out(samples, roofline_s, calls))
    _print("kernels, fitted", samples, _left_out(samples, kernel_s, calls))


def _drawn(steps: Sequence[PublishedStep], most: int) -> list[PublishedStep]:
    """Return as many of each device, mode and precision as are wanted."""

    def place(step: PublishedStep) -> bytes:
        return hashlib.sha256(f"{step.job.label} {step.job.batch_size}".encode()).digest()

    taken: Counter[tuple[str, ...]] = Counter()
    kept = []
    for step in sorted(steps, key=place):
        key = (step.origin.source, step.accelerator, step.job.mode.value, step.job.precision.value)
        taken[key] += 1
        if taken[key] <= most:
            kept.append(step)
    return kept


def _roofline_s(sample: StepSample) -> float:
    table = step_table([sample.step])
    matrix = np.where(table.wide, table.peaks[0, 1], table.peaks[0, 0])
    peaks = np.where(table.matrix, matrix, table.peaks[0, 2])
    work = np.maximum(table.flops / peaks, table.traffic_bytes / table.peaks[0, 3])
    return float(table.count @ work)


def _kernels_s(sample: StepSample, model: KernelModel) -> float:
    step = sample.step
    precision = step.accelerator.computed_as(step.precision)
    found = step_kernels(model, step.sketch, step.accelerator, precision)
    return float(step.sketch.count @ found.time_s)


def _left_out(samples: Sequence[StepSample], work_s: FloatArray, calls: FloatArray) -> FloatArray:
    """Return ``(work + host calls) / efficiency`` with both fitted to the other devices."""
    measured = np.array([sample.step_time_s for sample in samples])
    devices = np.array([sample.step.accelerator.name for sample in samples])
    predicted = np.zeros(len(samples))
    for device in np.unique(devices):
        held = devices == device
        fits = []
        for host_s in HOST_S:
            whole = work_s + host_s * calls
            ratio = np.median(measured[~held] / whole[~held])
            error = np.abs(ratio * whole[~held] / measured[~held] - 1.0).mean()
            fits.append((error, ratio * whole[held]))
        predicted[held] = min(fits, key=lambda fit: fit[0])[1]
    return predicted


def _print(name: str, samples: Sequence[StepSample], predicted_s: FloatArray) -> None:
    measured = np.array([sample.step_time_s for sample in samples])
    ratio = predicted_s / measured
    parts: tuple[tuple[str, Callable[[StepSample], str]], ...] = (
        ("all", lambda _: "all"),
        ("source", lambda one: one.source),
        ("precision", lambda one: one.step.precision.matrix_rate),
        ("maker", lambda one: one.step.accelerator.vendor),
    )
    for _, part in parts:
        keys = np.array([part(sample) for sample in samples])
        for key in np.unique(keys):
            own = ratio[keys == key]
            print(
                f"{name:22} {key:18} {len(own):5}  error {100 * np.abs(own - 1).mean():5.1f} %  "
                f"median ratio {np.median(own):.2f}  nine in ten {np.quantile(own, 0.05):.2f} to "
                f"{np.quantile(own, 0.95):.2f}"
            )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    stated = os.environ.get("PERFMODEL_DATA")
    parser.add_argument("--data", type=Path, default=stated, required=stated is None)
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--formats", nargs="*", default=FORMATS)
    parser.add_argument("--most", type=int, default=10, help="steps of a device and kind")
    return parser.parse_args()


if __name__ == "__main__":
    main()
