"""Answers to questions about kernels: times beside what the device allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from perfmodel.client.answers import KernelAnswer
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import PerfModelError
from perfmodel.estimator.kernels.kernel_question import KernelQuestion
from perfmodel.features.kernels.kernel_calls import kernel_calls
from perfmodel.features.kernels.kernel_columns import KernelRoofline, kernel_roofline
from perfmodel.features.kernels.kernel_work import MATRIX_OPS, has_units, kernel_dtype
from perfmodel.intervals import COVERAGE, wider
from perfmodel.predictors.emulation import EMULATED_WARNING, emulation
from perfmodel.predictors.kernels.kernel_times import LAUNCH_S, KernelModel
from perfmodel.types import Basis


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelError:
    """Why a kernel, an accelerator or a pair of them has no answer; None means all of them."""

    kernel: int | None = None
    accelerator: int | None = None
    error: PerfModelError


@dataclass(frozen=True, kw_only=True)
class KernelTable:
    """Answers to every pair that has one, kernel by kernel."""

    kernels: int
    accelerators: tuple[str | None, ...]
    answers: tuple[KernelAnswer, ...]
    errors: tuple[KernelError, ...]
    model_version: str
    warnings: tuple[str, ...] = ()

    def to_dict(self, problem: Callable[[PerfModelError], Mapping[str, Any]]) -> dict[str, Any]:
        """Return it as plain JSON values; what is wrong is told as ``problem`` tells it."""
        return {
            "kernels": self.kernels,
            "accelerators": list(self.accelerators),
            "answers": [asdict(one) for one in self.answers],
            "errors": [
                {"kernel": one.kernel, "accelerator": one.accelerator, **problem(one.error)}
                for one in self.errors
            ],
            "model_version": self.model_version,
            "warnings": list(self.warnings),
        }


#: A kernel with its position, on an accelerator.
Pair = tuple[int, KernelQuestion, AcceleratorSpec]


def kernel_answers(model: KernelModel, pairs: Sequence[Pair]) -> list[KernelAnswer]:
    """Answer kernels of one accelerator each, all at once."""
    if not pairs:
        return []
    calls = kernel_calls(
        op=[kernel.op for _, kernel, _ in pairs],
        dtype=[kernel.precision for _, kernel, _ in pairs],
        accelerator=[spec for _, _, spec in pairs],
        shape=[kernel.shape for _, kernel, _ in pairs],
        kernel=[kernel.implementation for _, kernel, _ in pairs],
    )
    found, roofline = model.times(calls), kernel_roofline(calls)
    times = zip(found.time_s, found.low_s, found.high_s, found.device_s, found.basis, strict=True)
    beside = [_beside(roofline, i, float(found.time_s[i]), pairs[i][2]) for i in range(len(pairs))]
    answers = [
        KernelAnswer(
            kernel=position,
            accelerator=spec.name,
            time_s=float(time_s),
            low_s=float(low_s),
            high_s=float(high_s),
            device_time_s=float(device_s),
            coverage=COVERAGE,
            basis=Basis(str(basis)),
            out_of_distribution=str(basis) == Basis.ANALYTICAL,
            warnings=(
                *_warnings(kernel, spec, Basis(str(basis))),
                *_launched(others["bound"], float(time_s)),
            ),
            **others,
        )
        for (position, kernel, spec), (time_s, low_s, high_s, device_s, basis), others in zip(
            pairs, times, beside, strict=True
        )
    ]
    return [
        _emulated(answer, kernel, spec)
        for answer, (_, kernel, spec) in zip(answers, pairs, strict=True)
    ]


def _emulated(answer: KernelAnswer, kernel: KernelQuestion, spec: AcceleratorSpec) -> KernelAnswer:
    """Return an answer as long as a CPU takes that has no arithmetic for its 16 bits."""
    dtype = kernel_dtype(kernel.precision)
    slower = emulation(dtype.rate, spec) if kernel.op in MATRIX_OPS else None
    if slower is None or answer.basis is not Basis.ANALYTICAL:
        return answer
    rate, factor = dtype.rate.matrix_rate, slower.factor
    said = EMULATED_WARNING.format(device=spec.name, rate=rate, what="kernel", factor=factor)
    time_s = answer.time_s * factor
    return replace(
        answer,
        time_s=time_s,
        low_s=time_s * wider(answer.low_s / answer.time_s, slower.half_width),
        high_s=time_s * wider(answer.high_s / answer.time_s, slower.half_width),
        device_time_s=time_s,
        achieved_flops_per_s=answer.flops / time_s,
        achieved_bytes_per_s=answer.bytes / time_s,
        warnings=(*answer.warnings, said),
    )


def _beside(
    roofline: KernelRoofline, i: int, time_s: float, spec: AcceleratorSpec
) -> Mapping[str, Any]:
    flops, moved = float(roofline.work.flops[i]), float(roofline.work.traffic_bytes[i])
    compute_s, memory_s = float(roofline.compute_s[i]), float(roofline.memory_s[i])
    longest = "compute" if compute_s >= memory_s else "memory"
    return {
        "roofline_s": float(roofline.roofline_s[i]),
        "bound": "launch" if max(compute_s, memory_s) < min(LAUNCH_S, time_s / 2) else longest,
        "flops": flops,
        "bytes": moved,
        "achieved_flops_per_s": flops / time_s,
        "achieved_bytes_per_s": moved / time_s,
        "peak_flops_per_s": float(roofline.peak_flops_per_s[i]),
        "bandwidth_bytes_per_s": spec.bandwidth_bytes_per_s,
    }


_NOT_LEARNED = (
    "Nothing was learned of such kernels on such an accelerator: the time is its roofline over a "
    "typical efficiency."
)

#: A launch that takes more than so many times that of a device is one by the host.
_BY_THE_HOST = 3.0
_LAUNCHED = (
    "So little is computed that the launch decides, and tables of such kernels timed it with the "
    "host: one by a device, as in its graphs, takes device_time_s."
)


def _launched(bound: str, time_s: float) -> tuple[str, ...]:
    by_host = bound == "launch" and time_s > _BY_THE_HOST * LAUNCH_S
    return (_LAUNCHED,) if by_host else ()


def _warnings(kernel: KernelQuestion, spec: AcceleratorSpec, basis: Basis) -> tuple[str, ...]:
    found = [_NOT_LEARNED] if basis is Basis.ANALYTICAL else []
    dtype = kernel_dtype(kernel.precision)
    if kernel.op in MATRIX_OPS and not has_units(dtype, spec):
        rate = "fp4" if dtype.speed_up > 1.0 else dtype.rate.matrix_rate
        found.append(
            f"{spec.name} states no rate for {rate}: the roofline of {kernel.precision} is that of "
            "the next type that can hold it."
        )
    return tuple(np.unique(found).tolist())
