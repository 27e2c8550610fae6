"""Answers to questions about kernels and collectives: times beside what the device allows.

Every pair of some of them and some accelerators is answered, a bad one for itself. A collective is
asked among equal accelerators, hosts filled one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from perfmodel.client.answers import KernelAnswer
from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator.jobs.capture_terms import go_on
from perfmodel.estimator.kernels.kernel_question import KernelQuestion, KernelsQuestion
from perfmodel.features.kernels.kernel_calls import kernel_calls
from perfmodel.features.kernels.kernel_columns import KernelRoofline, kernel_roofline
from perfmodel.features.kernels.kernel_work import MATRIX_OPS, has_units, kernel_dtype
from perfmodel.intervals import COVERAGE, wider
from perfmodel.json_values import MAX_COUNT
from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.collectives.collectives import collective_time_s, sent_share
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.fabric.world_group import scaling_groups
from perfmodel.placement.topology.networks import default_network, named_network
from perfmodel.predictors.emulation import EMULATED_WARNING, emulation
from perfmodel.predictors.kernels.kernel_times import LAUNCH_S, KernelModel, KernelTimes
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
    return [_answer(found, roofline, row, *pair) for row, pair in enumerate(pairs)]


def _answer(
    found: KernelTimes,
    roofline: KernelRoofline,
    row: int,
    position: int,
    kernel: KernelQuestion,
    spec: AcceleratorSpec,
) -> KernelAnswer:
    """Return what was found of one kernel beside its roofline."""
    time_s, basis = float(found.time_s[row]), Basis(str(found.basis[row]))
    flops, moved = float(roofline.work.flops[row]), float(roofline.work.traffic_bytes[row])
    compute_s, memory_s = float(roofline.compute_s[row]), float(roofline.memory_s[row])
    bound = "compute" if compute_s >= memory_s else "memory"
    if max(compute_s, memory_s) < min(LAUNCH_S, time_s / 2):
        bound = "launch"
    answer = KernelAnswer(
        kernel=position,
        accelerator=spec.name,
        time_s=time_s,
        low_s=float(found.low_s[row]),
        high_s=float(found.high_s[row]),
        device_time_s=float(found.device_s[row]),
        coverage=COVERAGE,
        basis=basis,
        out_of_distribution=basis is Basis.ANALYTICAL,
        roofline_s=float(roofline.roofline_s[row]),
        bound=bound,
        flops=flops,
        bytes=moved,
        achieved_flops_per_s=flops / time_s,
        achieved_bytes_per_s=moved / time_s,
        peak_flops_per_s=float(roofline.peak_flops_per_s[row]),
        bandwidth_bytes_per_s=spec.bandwidth_bytes_per_s,
        warnings=(*_warnings(kernel, spec, basis), *_launched(bound, time_s)),
    )
    return _emulated(answer, kernel, spec)


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


#: ln of the ratio that nine in ten collectives lie within, on devices without any table inside of
#: a host, and over generations of links without one (docs/accuracy.md); few cross hosts.
INSIDE, BETWEEN = 0.30, 0.42


def collective_answer(
    position: int, asked: KernelQuestion, spec: AcceleratorSpec, pointer: str
) -> KernelAnswer:
    """Answer one collective.

    Raises
    ------
    InvalidInputError
        A link that the accelerator has not, or an unknown network.
    """
    collective, size = Collective(asked.op), asked.shape["size_bytes"]
    groups = _groups(asked, spec, pointer)
    ranks, hosts = float(groups.ranks[0]), float(groups.hosts[0])
    if ranks < 2:
        raise InvalidInputError(
            f"A collective needs 2 ranks or more; got {ranks:g}.", pointer=f"{pointer}/shape/ranks"
        )
    time_s = float(collective_time_s(collective, size, groups)[0])
    sent = size * float(sent_share(collective, ranks))
    least_s, rate = _least_s(collective, size, groups), _slowest_bytes_per_s(groups)
    spread = math.exp(INSIDE if hosts == 1 else BETWEEN)
    return KernelAnswer(
        kernel=position,
        accelerator=spec.name,
        time_s=time_s,
        low_s=time_s / spread,
        high_s=time_s * spread,
        device_time_s=time_s,
        coverage=COVERAGE,
        basis=Basis.INTERPOLATED if hosts == 1 else Basis.EXTRAPOLATED,
        out_of_distribution=False,
        roofline_s=least_s,
        bound="link" if least_s > time_s / 4 else "launch",
        flops=0.0,
        bytes=sent,
        achieved_flops_per_s=0.0,
        achieved_bytes_per_s=sent / time_s,
        peak_flops_per_s=None,
        bandwidth_bytes_per_s=rate,
        warnings=_assumed(asked, spec, hosts),
    )


def _groups(asked: KernelQuestion, spec: AcceleratorSpec, pointer: str) -> CommGroups:
    network = asked.network
    try:
        return scaling_groups(
            spec,
            np.array([min(asked.shape["ranks"], MAX_COUNT)]),
            int(asked.shape["per_host"]),
            None if network is None else named_network(network, pointer=f"{pointer}/network"),
            link=asked.link,
            steady=False,
        )
    except InvalidInputError as error:
        error.pointer = error.pointer or f"{pointer}/link"
        raise


def _least_s(collective: Collective, size: float, groups: CommGroups) -> float:
    """Return what no form can beat: each link passes on once what ranks behind it lack."""
    share, hosts, ranks = (
        float(column[0]) for column in (groups.largest_share, groups.hosts, groups.ranks)
    )
    if collective in (Collective.BROADCAST, Collective.SEND_RECV):
        inside, between = 1.0, 1.0
    elif collective is Collective.ALL_TO_ALL:
        inside, between = (ranks - 1) / ranks, share * (ranks - share) / ranks
    else:
        inside, between = (share - 1) / share, (hosts - 1) / hosts
    within_s = size * inside / float(groups.intra_bytes_per_s[0]) if share > 1 else 0.0
    return max(within_s, size * between / float(groups.inter_bytes_per_s[0]) if hosts > 1 else 0.0)


def _slowest_bytes_per_s(groups: CommGroups) -> float:
    """Return the stated rate of the slowest link that a rank sends over."""
    inside, between = float(groups.intra_bytes_per_s[0]), float(groups.inter_bytes_per_s[0])
    if float(groups.hosts[0]) == 1:
        return inside
    return min(inside, between) if float(groups.largest_share[0]) > 1 else between


def _assumed(asked: KernelQuestion, spec: AcceleratorSpec, hosts: float) -> tuple[str, ...]:
    if hosts == 1 or asked.network is not None:
        return ()
    usual = default_network([spec])
    return (f"No network is stated between hosts; {usual.name} is taken for it.",)


def answer_kernels(asked: KernelsQuestion, model: KernelModel, catalog: Catalog) -> KernelTable:
    """Answer every pair; what is wrong with a kernel or an accelerator costs its own pairs."""
    specs = [_looked_up(catalog, name, i) for i, name in enumerate(asked.accelerators)]
    errors = [
        *(KernelError(kernel=i, error=error) for i, error in _errors(asked.kernels)),
        *(KernelError(accelerator=j, error=error) for j, error in _errors(specs)),
    ]
    alone: dict[tuple[int, int], Pair] = {}
    answers: dict[tuple[int, int], KernelAnswer] = {}
    kernels = [(i, one) for i, one in enumerate(asked.kernels) if isinstance(one, KernelQuestion)]
    known = [(j, one) for j, one in enumerate(specs) if isinstance(one, AcceleratorSpec)]
    for (i, kernel), (j, spec) in product(kernels, known):
        go_on()
        if not kernel.is_collective:
            alone[i, j] = i, kernel, spec
            continue
        try:
            answers[i, j] = collective_answer(i, kernel, spec, f"/kernels/{i}")
        except PerfModelError as error:
            errors.append(KernelError(kernel=i, accelerator=j, error=error))
    answers.update(zip(alone, kernel_answers(model, [*alone.values()]), strict=True))
    return KernelTable(
        kernels=len(asked.kernels),
        accelerators=tuple(None if isinstance(s, PerfModelError) else s.name for s in specs),
        answers=tuple(answers[place] for place in sorted(answers)),
        errors=tuple(errors),
        model_version=model.version,
        warnings=tuple(dict.fromkeys(w for one in answers.values() for w in one.warnings)),
    )


def _looked_up(catalog: Catalog, name: str, position: int) -> AcceleratorSpec | PerfModelError:
    try:
        return catalog.get(name)
    except InvalidInputError as error:
        error.pointer = f"/accelerators/{position}"
        return error


def _errors(found: Sequence[object]) -> Iterator[tuple[int, PerfModelError]]:
    return ((i, one) for i, one in enumerate(found) if isinstance(one, PerfModelError))
