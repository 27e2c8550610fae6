r"""What a device holds beside and around the tensors of a step.

With the parts of a step (:class:`.memory_parts.MemoryParts`) a process asks for

.. math::

    D = R_\mathrm{arch} + F_w + H + \max_i\bigl(\rho f_w (a_i + \kappa s) + g_i\bigr)
        + \beta B + \omega C

where ``R`` is what the framework holds on an architecture (context, libraries), ``H`` what is held
through the step, ``a`` and ``g`` activations and gradients at the corners, ``s`` the score matrices
of attention where no fused kernel is used, ``rho`` what the allocator reserves over what it has
given out, ``B`` the buckets of data parallelism and ``C`` the largest convolution, whose
workspaces grow with it. ``f`` and ``F`` belong to workloads that were measured: batches of uneven
length hold more than the average one that is captured, and a data set may lie on the device,
divided in part among replicas (:func:`held_share`). A workload that was never measured has
``f = 1`` and ``F = 0``, and the other amounts come from a fit in which all workloads have; there
``R`` holds what scripts keep too, so that inference and bare steps have the other ``R``. Where the
gradients and temporaries of the optimizer are more than the maximum, they stand in its place.

``R``, ``f``, ``F``, ``rho``, ``kappa``, ``beta`` and ``omega`` are fitted on what monitors of
devices showed. A CPU has no such allocator: there ``D`` is the tensors and the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.releases import has_fused_attention, torch_version
from perfmodel.graph.job import Job
from perfmodel.placement.fitted import fitted
from perfmodel.placement.memory.memory_parts import MemoryParts
from perfmodel.types import Mode, Precision

#: Bytes that a process holds before the first tensor on devices that nothing was fitted on:
#: interpreter and framework of a CPU process, runtime of others. Rounded from idle processes.
_OTHER_RUNTIME_BYTES = {"cpu": 300e6, "tpu": 500e6, "npu": 600e6}

#: Workloads whose data set lies on the device.
_DATA_ON_DEVICE = frozenset({"zoo/ncf"})

#: Since PyTorch 2.0 lists of parameters are updated at once; releases before 1.7 are told apart in
#: the factors of measured workloads. As :func:`.releases.torch_version` counts them.
_MODERN_TORCH = 2.0
_OLDER_TORCH = 1.3

_HALF = frozenset(
    {Precision.AMP_FP16, Precision.AMP_BF16, Precision.FP16, Precision.BF16, Precision.FP8}
)


@dataclass(frozen=True, kw_only=True, eq=False)
class JobConstants:
    """What a job says of the demand, wherever it runs; from :func:`constants_for`.

    Parameters
    ----------
    fitted : mapping
        As the fit writes them, with ``f`` as ``factor`` and ``F`` as ``held_bytes``: 1 and 0 unless
        training of the workload was measured.
    is_fused, is_modern : bool
        As of :class:`Overhead`.
    divides_data : bool
        Whether replicas divide a data set on their devices: the more, the less each holds.
    """

    fitted: Mapping[str, Any]
    is_fused: bool
    is_modern: bool
    divides_data: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Overhead:
    """What stands around the tensors, for many cells at once.

    Parameters
    ----------
    runtime_bytes, held_bytes : ndarray, shape (cells,)
        ``R`` and ``F``.
    factor : ndarray, shape (cells,)
        ``rho f`` without the share that the replay of the allocator tells.
    has_allocator : ndarray of bool, shape (cells,)
        Whether a caching allocator rounds and scatters; False for a CPU.
    is_fused, is_modern : ndarray of bool, shape (cells,)
        Whether attention is one kernel, and whether the optimizer updates lists of parameters.
    bucket_share, unfused_share, workspace_share : float
        ``beta``, ``kappa`` and ``omega``.
    """

    runtime_bytes: FloatArray
    held_bytes: FloatArray
    factor: FloatArray
    has_allocator: npt.NDArray[np.bool_]
    is_fused: npt.NDArray[np.bool_]
    is_modern: npt.NDArray[np.bool_]
    bucket_share: float
    unfused_share: float
    workspace_share: float


def demand_bytes(parts: MemoryParts, around: Overhead) -> FloatArray:
    """Return what a process asks of its device at most, ``D`` above.

    Parameters
    ----------
    around : Overhead
        Of the same cells.
    """
    on_device = around.has_allocator
    scale = np.where(on_device, parts.reserved_ratio * around.factor, 1.0)
    scores = np.where(on_device & ~around.is_fused, around.unfused_share, 0.0)
    activations = parts.activation_corners + (scores * parts.attention_bytes)[:, None]
    passing = (scale[:, None] * activations + parts.gradient_corners).max(axis=1)
    # Before it updated lists of tensors, the framework updated one parameter at a time.
    update = parts.gradient_bytes + np.where(around.is_modern, parts.optimizer_bytes, 0.0)
    beside = around.bucket_share * parts.bucket_bytes + np.where(
        on_device, around.workspace_share * parts.convolution_bytes, 0.0
    )
    return np.asarray(
        around.runtime_bytes
        + around.held_bytes
        + parts.held_bytes
        + np.maximum(passing, update)
        + beside
    )


def overhead(
    accelerators: Sequence[AcceleratorSpec],
    constants: JobConstants,
    replicas: npt.ArrayLike = 1.0,
) -> Overhead:
    """Look up what stands around the tensors of a job on some accelerators.

    Parameters
    ----------
    replicas : array_like
        Data-parallel replicas of each cell, >= 1.
    """
    cells, known = len(accelerators), constants.fitted
    held = held_share(replicas, is_divided=constants.divides_data)
    is_gpu = np.array([spec.kind == "gpu" for spec in accelerators], dtype=np.bool_)
    # Of its generation where that was measured, else of a typical GPU; once for each accelerator,
    # since a curve has thousands of cells of one.
    measured = known["runtime_bytes"]
    runtime_bytes = {
        key: float(measured.get(generation(spec), measured["gpu"]))
        if spec.kind == "gpu"
        else _OTHER_RUNTIME_BYTES[spec.kind]
        for key, spec in {id(spec): spec for spec in accelerators}.items()
    }
    return Overhead(
        runtime_bytes=np.array([runtime_bytes[id(spec)] for spec in accelerators]),
        held_bytes=np.where(is_gpu, known["held_bytes"] * held, 0.0),
        factor=np.full(cells, known["factor"] * (1 + known["scattered_share"])),
        has_allocator=is_gpu,
        is_fused=np.full(cells, constants.is_fused),
        is_modern=np.full(cells, constants.is_modern),
        bucket_share=known["bucket_share"],
        unfused_share=known["unfused_share"],
        workspace_share=known["workspace_share"],
    )


def held_share(replicas: npt.ArrayLike, *, is_divided: bool) -> FloatArray:
    """Return the part of ``F`` that lies on one of n replicas, (1 + 1/n) / 2 of a data set.

    Every replica holds what samples are drawn from; the samples of an epoch, about as many bytes,
    are divided among them.

    Parameters
    ----------
    replicas : array_like
        >= 1.
    is_divided : bool
        As :func:`divides_data` tells of the job.

    Examples
    --------
    >>> held_share([1, 2, 4], is_divided=True).tolist()
    [1.0, 0.75, 0.625]
    """
    count = np.asarray(replicas, dtype=np.float64)
    return np.asarray((1 + 1 / count) / 2 if is_divided else np.ones(count.shape))


def divides_data(job: Job | None) -> bool:
    """Tell whether replicas divide a data set on their devices: the more, the less each holds."""
    return job is not None and job.model in _DATA_ON_DEVICE


def generation(accelerator: AcceleratorSpec) -> str:
    """Return the first word of the architecture: ``"Ampere"`` of ``"Ampere GA100"``."""
    return accelerator.architecture.partition(" ")[0]


def constants_for(job: Job | None, constants: Mapping[str, Any] | None = None) -> JobConstants:
    """Return the constants for a job: of measured workloads, or common ones for all others.

    Training of a workload that was never measured may keep gigabytes beside its tensors, which the
    common runtime of a device holds in the mean. Inference, and training that is said to be bare
    (``script`` false), has no such script around it: the runtime is the context alone. Neither was
    among the runs of the fit, so that they are no surer for that.

    Parameters
    ----------
    constants : mapping or None
        As the fit writes them; None: what comes with the package.
    """
    return JobConstants(
        fitted=_fitted_for(job, fitted("memory") if constants is None else constants),
        is_fused=is_fused(job),
        is_modern=is_modern(job),
        divides_data=divides_data(job),
    )


def _fitted_for(job: Job | None, constants: Mapping[str, Any]) -> Mapping[str, Any]:
    common: Mapping[str, Any] = constants["common"]
    unmeasured = {"factor": 1.0, "held_bytes": 0.0}
    if job is not None and job.mode is Mode.INFERENCE:
        return {**constants, "deviation": common["deviation"], **unmeasured}
    is_bare = job is not None and job.script is False
    known = None if job is None else constants.get("workloads", {}).get(job.model)
    if job is None or known is None:
        runtime = {"runtime_bytes": constants["runtime_bytes"]} if is_bare else {}
        return {**common, **runtime, **unmeasured}
    factor = known["half" if is_half(job) else "full"] * (known["older"] if is_older(job) else 1.0)
    held_bytes = 0.0 if is_bare else known["held_bytes"]
    return {**constants, "factor": factor, "held_bytes": held_bytes}


def is_half(job: Job) -> bool:
    """Tell whether activations take two bytes an element."""
    return job.arithmetic in _HALF


def is_fused(job: Job | None) -> bool:
    """Tell whether attention is one kernel; where nothing is said, it is."""
    return has_fused_attention({} if job is None else job.software)


def is_modern(job: Job | None) -> bool:
    """Tell whether a job runs on torch 2 or later; where nothing is said, it does."""
    return torch_version({} if job is None else job.software) >= _MODERN_TORCH


def is_older(job: Job) -> bool:
    """Tell whether a job runs on a release before 1.7."""
    return torch_version(job.software) < _OLDER_TORCH
