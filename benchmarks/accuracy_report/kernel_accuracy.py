"""Judge predictions of kernel latency on devices that were left out.

Each device of a group of operators is left out in turn and everything is fitted on the others, so
that of the device only its catalogue facts are known. Beside the predictor stand the roofline with
one fitted efficiency per operator, and boosted trees from plain columns (extents, device facts) to
the logarithm of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from accuracy_report.methods import MethodTable

from perfmodel.features.arrays import FloatArray
from perfmodel.features.kernels.kernel_columns import column_matrix, framework, kernel_roofline
from perfmodel.importers.published import PublishedKernel
from perfmodel.predictors.boosting import Booster, BoosterSettings
from perfmodel.predictors.folds import Progress
from perfmodel.predictors.kernels.kernel_base import GROUPS, kernel_group
from perfmodel.predictors.kernels.kernel_offsets import group_offsets
from perfmodel.predictors.kernels.kernel_predictor import (
    KERNEL_SETTINGS,
    KernelPredictor,
    device_weights,
)
from perfmodel.training.samples.measured_kernels import MeasuredCalls, measured_calls, same_shapes
from perfmodel.training.samples.public_data import KERNEL_FORMATS, read_formats

#: The predictor, then what it is compared with.
METHODS = ("kernels", "roofline", "plain_trees")
#: MAPE to reach on devices that were left out.
TARGET = 0.12
#: Numbers of probes that the curve is drawn for.
PROBES = (3, 5, 10)

#: Questions that are scored apart: groups of operators, those of fp32 for themselves.
TITLES: Mapping[str, str] = MappingProxyType(
    {
        "product_fp32": "Matrix products and convolutions in fp32, unseen device",
        "product": "Matrix products in 16 bits and less, unseen device",
        "prefill": "Attention kernels (prefill), unseen device",
        "decode": "Attention kernels (decode), unseen device",
        "moe": "Mixture-of-experts kernels, unseen device",
        "pointwise_fp32": "Point-wise operators, softmax and norms in fp32, unseen device",
        "pointwise": "Point-wise operators and norms in 16 bits, unseen device",
    }
)

#: Most calls of an operator on a device in the full form and in the fast one, which also grows
#: fewer trees.
FULL_LIMIT, FAST_LIMIT = 4000, 600
FAST_ROUNDS = 120
_PLAIN = BoosterSettings(rounds=200, depth=6, learning_rate=0.1, min_child_weight=5.0)
_DRAWS = 20
_SHARE = "launch_share"


@dataclass(frozen=True, kw_only=True)
class KernelEvaluation:
    """Held-out answers of every method; every array has one entry a call.

    Parameters
    ----------
    question : ndarray of str
        A key of :data:`TITLES`.
    kernel : ndarray of str
        Framework that ran it.
    predicted_s : mapping of str to ndarray
        By the names of :data:`METHODS`.
    launch_share : ndarray
        Part of each call that does not grow with its size, in [0, 1].
    """

    device: npt.NDArray[np.str_]
    op: npt.NDArray[np.str_]
    question: npt.NDArray[np.str_]
    kernel: npt.NDArray[np.str_]
    measured_s: FloatArray
    predicted_s: Mapping[str, FloatArray]
    launch_share: FloatArray

    def tables(self) -> list[MethodTable]:
        """Return one table a question, with the curve of errors over probes."""
        found = []
        for question in [name for name in TITLES if name in set(self.question.tolist())]:
            rows = self.question == question
            curve = self.probe_curve(question)
            steps = ", ".join(f"{k} probes {100 * error:.1f} %" for k, error in curve.items())
            found.append(
                MethodTable(
                    name=f"kernels-{question.replace('_', '-')}",
                    title=TITLES[question],
                    target=TARGET,
                    measured_s=self.measured_s[rows],
                    predicted_s={m: times[rows] for m, times in self.predicted_s.items()},
                    groups=self.device[rows],
                    facts={"Mean error after measured kernels of the device": steps},
                )
            )
        return found

    def probe_curve(
        self, question: str, probes: Sequence[int] = PROBES, seed: int = 0
    ) -> dict[int, float]:
        """Return the MAPE of a question after ``k`` random measured calls of each device.

        Returns
        -------
        dict of int to float
            Mean over devices' rows and repeated draws; the probes themselves do not count.
        """
        rng = np.random.default_rng(seed)
        rows = np.flatnonzero(self.question == question)
        residual = np.log(self.measured_s[rows] / self.predicted_s[METHODS[0]][rows])
        share, device = self.launch_share[rows], self.device[rows]
        return {k: _after_probes(residual, share, device, k, rng) for k in probes}


def evaluate_kernels(
    kernels: Sequence[PublishedKernel],
    *,
    seed: int = 0,
    fast: bool = False,
    progress: Callable[[str], None] | None = None,
) -> KernelEvaluation:
    """Predict every device's kernels from those of the others.

    Parameters
    ----------
    seed : int
        Chooses the shapes that are kept, and grows the trees.

    Returns
    -------
    KernelEvaluation
        Of the calls that were kept; groups seen on one device only are left out.

    Raises
    ------
    TrainingError
        No records.
    """
    everything = measured_calls(kernels)
    limit = FAST_LIMIT if fast else FULL_LIMIT
    chosen = everything.take(same_shapes(everything.calls, limit, seed))
    settings = replace(KERNEL_SETTINGS, rounds=FAST_ROUNDS) if fast else KERNEL_SETTINGS
    group = kernel_group(chosen.calls)
    parts = []
    for name in GROUPS:
        part = chosen.take(group == name)
        if len(np.unique(part.calls.device)) > 1:
            parts.append((name, part, _leave_devices_out(part, settings, seed, progress, name)))
    return _joined(parts)


def _leave_devices_out(
    part: MeasuredCalls,
    settings: BoosterSettings,
    seed: int,
    progress: Callable[[str], None] | None,
    name: str,
) -> dict[str, FloatArray]:
    answers = {method: np.zeros(len(part)) for method in (*METHODS, _SHARE)}
    for device in np.unique(part.calls.device).tolist():
        held = part.calls.device == device
        train, test = part.take(~held), part.take(held)
        predictor = KernelPredictor(settings, seed).fit(train.calls, train.time_s)
        answers["kernels"][held] = predictor.predict(test.calls)
        answers[_SHARE][held] = predictor.launch_share(test.calls)
        answers["roofline"][held] = _fitted_roofline(train, test)
        answers["plain_trees"][held] = _plain_trees(train, test, seed)
        if progress is not None:
            error = np.abs(answers["kernels"][held] / test.time_s - 1.0).mean()
            progress(f"{name} without {part.calls.devices[device].name}: {100 * error:.1f} %")
    return answers


def _joined(
    parts: Sequence[tuple[str, MeasuredCalls, Mapping[str, FloatArray]]],
) -> KernelEvaluation:
    def column(values: Sequence[npt.NDArray[np.str_]]) -> npt.NDArray[np.str_]:
        return np.concatenate(values) if values else np.zeros(0, dtype="<U1")

    def numbers(values: Sequence[FloatArray]) -> FloatArray:
        return np.concatenate([np.zeros(0), *values])

    return KernelEvaluation(
        device=column([part.calls.device_names for _, part, _ in parts]),
        op=column([part.calls.op for _, part, _ in parts]),
        question=column([questions(part, name) for name, part, _ in parts]),
        kernel=column([framework(part.calls) for _, part, _ in parts]),
        measured_s=numbers([part.time_s for _, part, _ in parts]),
        predicted_s={m: numbers([found[m] for _, _, found in parts]) for m in METHODS},
        launch_share=numbers([found[_SHARE] for _, _, found in parts]),
    )


def questions(part: MeasuredCalls, group: str) -> npt.NDArray[np.str_]:
    """Return what is scored apart of a group, keys of :data:`TITLES`."""
    fp32 = (part.calls.dtype == "fp32") & (group == "pointwise")
    return np.where(fp32, "pointwise_fp32", group)


def _fitted_roofline(train: MeasuredCalls, test: MeasuredCalls) -> FloatArray:
    """``roofline / efficiency`` with the median efficiency of the operator."""
    bound, roofline = kernel_roofline(train.calls).roofline_s, kernel_roofline(test.calls)
    share = bound / train.time_s
    times = roofline.roofline_s / np.median(share)
    for op in np.unique(test.calls.op).tolist():
        own = train.calls.op == op
        if own.any():
            rows = test.calls.op == op
            times[rows] = roofline.roofline_s[rows] / np.median(share[own])
    return np.maximum(times, 1e-7)


def _plain_trees(train: MeasuredCalls, test: MeasuredCalls, seed: int) -> FloatArray:
    columns = _plain_columns(train)
    booster = Booster.train(
        column_matrix(columns),
        np.log(train.time_s),
        device_weights(train.calls),
        list(columns),
        replace(_PLAIN, seed=seed),
    )
    return np.exp(booster.predict(column_matrix(_plain_columns(test))))


def _plain_columns(part: MeasuredCalls) -> dict[str, FloatArray]:
    """Extents as they stand, operator and type as numbers, and the device's absolute facts."""
    calls, roofline = part.calls, kernel_roofline(part.calls)
    bandwidth = [d.bandwidth_bytes_per_s for d in calls.devices]
    columns = {n: np.nan_to_num(v, nan=-1.0) for n, v in sorted(calls.shape.items())}
    for op in ("gemm", "bmm", "conv2d", "softmax", "layer_norm", "rms_norm", "pow"):
        columns[f"op_{op}"] = (calls.op == op).astype(np.float64)
    return {
        **columns,
        "element_bytes": roofline.work.weight_bytes / np.maximum(roofline.work.n, 1.0),
        "flops": roofline.work.flops,
        "bytes": roofline.work.traffic_bytes,
        "peak": roofline.peak_flops_per_s,
        "bandwidth": calls.fact(bandwidth),
        "cores": calls.fact([float(d.core_count or 0) for d in calls.devices]),
        "cache": calls.fact([d.cache_bytes or 0.0 for d in calls.devices]),
        "clock": calls.fact([d.clock_hz or 0.0 for d in calls.devices]),
    }


def _after_probes(
    residual: FloatArray,
    share: FloatArray,
    device: npt.NDArray[np.str_],
    probes: int,
    rng: np.random.Generator,
) -> float:
    """Return the mean error over repeated draws of ``probes`` calls of each device."""
    total, count = 0.0, 0
    for name in np.unique(device).tolist():
        rows = np.flatnonzero(device == name)
        if len(rows) <= probes:
            continue
        for _ in range(_DRAWS):
            order = rng.permutation(rows)
            known, rest = order[:probes], order[probes:]
            found = group_offsets(["own"] * probes, residual[known], share[known], ["own"])
            error = np.abs(np.expm1(found["own"].at(share[rest]) - residual[rest]))
            total, count = total + float(error.sum()), count + len(rest)
    return total / count if count else float("nan")


def run_kernels(
    data: Path, folder: Path, *, seed: int = 0, fast: bool = False, progress: Progress | None = None
) -> list[MethodTable]:
    """Judge the predictor of kernels on held-out tables and keep the answers.

    Parameters
    ----------
    folder : Path
        Where the answers go.

    Returns
    -------
    list of MethodTable
        Of the formats that the folder holds.
    """
    found = []
    for one in _tables(data, seed=seed, fast=fast):
        one.save(folder)
        found.append(one)
        if progress is not None:
            ours = next(iter(one.predicted_s))
            progress(f"{one.title}: {100 * float(one.errors(ours).mean()):.1f} %")
    return found


def _tables(data: Path, *, seed: int, fast: bool) -> Iterator[MethodTable]:
    found = read_formats(data, KERNEL_FORMATS)
    kernels = [kernel for imported in found.values() for kernel in imported.kernels]
    if kernels:
        yield from kernel_tables(evaluate_kernels(kernels, seed=seed, fast=fast))


def kernel_tables(found: KernelEvaluation) -> Iterator[MethodTable]:
    """Yield the held-out answers for all kernels together, then those of each group."""
    yield MethodTable(
        name="kernels",
        title="Operators, each device left out in turn",
        target=TARGET,
        measured_s=found.measured_s,
        predicted_s=found.predicted_s,
        groups=found.device,
    )
    yield from found.tables()
