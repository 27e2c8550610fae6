"""Every pair of some kernels and some accelerators, a bad one for itself.

A collective is asked among equal accelerators, hosts filled one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from perfmodel.client.answers import KernelAnswer
from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator.kernels.kernel_answers import (
    KernelError,
    KernelTable,
    Pair,
    kernel_answers,
)
from perfmodel.estimator.kernels.kernel_question import KernelQuestion, KernelsQuestion
from perfmodel.intervals import COVERAGE
from perfmodel.json_values import MAX_COUNT
from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.collectives.collectives import collective_time_s, sent_share
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.fabric.world_group import scaling_groups
from perfmodel.placement.topology.networks import default_network, named_network
from perfmodel.predictors.kernels.kernel_times import KernelModel
from perfmodel.types import Basis

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
        warnings=_warnings(asked, spec, hosts),
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


def _warnings(asked: KernelQuestion, spec: AcceleratorSpec, hosts: float) -> tuple[str, ...]:
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
    for i, j, kernel, spec in _sound_pairs(asked, specs):
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


def _sound_pairs(
    asked: KernelsQuestion, specs: list[AcceleratorSpec | PerfModelError]
) -> Iterator[tuple[int, int, KernelQuestion, AcceleratorSpec]]:
    for i, kernel in enumerate(asked.kernels):
        for j, spec in enumerate(specs):
            if not isinstance(kernel, PerfModelError) and not isinstance(spec, PerfModelError):
                yield i, j, kernel, spec


def _looked_up(catalog: Catalog, name: str, position: int) -> AcceleratorSpec | PerfModelError:
    try:
        return catalog.get(name)
    except InvalidInputError as error:
        error.pointer = f"/accelerators/{position}"
        return error


def _errors(found: Sequence[object]) -> Iterator[tuple[int, PerfModelError]]:
    return ((i, one) for i, one in enumerate(found) if isinstance(one, PerfModelError))
