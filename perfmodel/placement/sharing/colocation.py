"""Two jobs on one accelerator: how much longer the steps of each take.

Kernels of different jobs run beside each other (MPS), answered by what
:mod:`.pair_model` learned from measured pairs, or in turn (time slicing),
answered by its law alone with unfitted constants.

Limits: whole accelerators of one host; no figure for three jobs was measured, their excesses are
added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.cpu_facts import CPU_PREFIX
from perfmodel.errors import UnknownAcceleratorError
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.fitted import fitted
from perfmodel.placement.sharing.job_load import JobLoad, Loads, job_type_parts
from perfmodel.placement.sharing.pair_model import PairLaw, PairModel
from perfmodel.placement.topology.topology import Sharing
from perfmodel.types import Basis

#: Device share of a job of which nothing is known.
_TYPICAL_SHARE = 0.8


def slowdowns(
    subjects: Loads, partners: Loads, kind: str, *, sharing: Sharing = Sharing.MPS
) -> FloatArray:
    """Return the slowdown of each subject beside its partner.

    Parameters
    ----------
    subjects, partners : Loads
        Of one length, each as it is alone.
    kind : str
        Catalogue name of the accelerator.

    Returns
    -------
    ndarray, shape (pairs,)
        >= 1.
    """
    if sharing is Sharing.TIME_SLICING:
        return np.asarray(np.exp(PairLaw().log_slowdown(subjects, partners)))
    return _pair_model(_part(kind)).slowdown(subjects, partners, kind)


def slowdown_beside(
    subject: JobLoad, partners: Sequence[JobLoad], kind: str, *, sharing: Sharing = Sharing.MPS
) -> float:
    """Return the slowdown of a job beside any number of others; their excesses over 1 add up.

    Parameters
    ----------
    partners : sequence of JobLoad
        None of them: 1.
    kind : str
        Catalogue name of the accelerator.

    Returns
    -------
    float
        >= 1; never falls with another partner.
    """
    return _slowdown_beside(subject, tuple(partners), kind, sharing) if partners else 1.0


# A table asks for a pair on a kind of accelerator at every number of them, and from both its jobs.
@lru_cache(maxsize=16_384)
def _slowdown_beside(
    subject: JobLoad, partners: tuple[JobLoad, ...], kind: str, sharing: Sharing
) -> float:
    subjects = Loads.of([subject] * len(partners))
    alone_with_each = slowdowns(subjects, Loads.of(partners), kind, sharing=sharing)
    return 1.0 + float((alone_with_each - 1.0).sum())


def basis_of_pair(
    first: JobLoad, second: JobLoad, kind: str, *, sharing: Sharing = Sharing.MPS
) -> Basis:
    """Return what a pair's answer rests on: learned on this kind, on another, or an equation."""
    model = _pair_model(_part(kind))
    if sharing is Sharing.TIME_SLICING:
        return Basis.ANALYTICAL
    known = first.family in model.families and second.family in model.families
    return Basis.INTERPOLATED if known and kind in model.weights else Basis.EXTRAPOLATED


def interval_factors(basis: Basis, kind: str = "") -> tuple[float, float]:
    """Return what to multiply a slowdown with for the ends of its 90 % interval.

    Parameters
    ----------
    basis : Basis
        As :func:`basis_of_pair` returns it.
    kind : str
        Catalogue name of the accelerator, where it is known.

    Returns
    -------
    tuple of (float, float)
        From pairs left out, or from a kind of accelerator left out.
    """
    known = basis is Basis.INTERPOLATED
    word = "interpolated" if known else "extrapolated"
    usual, own = fitted("colocation")["spread"], _constants(_part(kind) if kind else "")["spread"]
    low, high = own.get(word, usual[word])
    return float(np.exp(low)), float(np.exp(high))


def family_of(name: str, *, mode: str = "", kind: str = "") -> str | None:
    """Return the measured family of a model reference or job type's family, or None.

    Parameters
    ----------
    mode, kind : str
        Of the job, and catalogue name of the accelerator, where they are known: pairs on CPUs were
        measured by themselves and in both modes.

    Examples
    --------
    >>> family_of("zoo/resnet50-v1.5"), family_of("ResNet-50"), family_of("timm/vit_tiny")
    ('ResNet-50', 'ResNet-50', None)
    """
    constants = fitted("colocation")
    if kind and _part(kind) == "cores":
        of_mode = f"{name} {mode}"
        return of_mode if of_mode in _constants("cores")["families"] else None
    if name in constants["families"]:
        return name
    family = constants["models"].get(name)
    return None if family is None else str(family)


def known_device_share(family: str, batch_size: int, kind: str) -> float | None:
    """Return the device share of a measured family, interpolated in the logarithm of the batch.

    Parameters
    ----------
    family : str
        As :func:`family_of` returns it.
    kind : str
        Catalogue name of the accelerator.

    Returns
    -------
    float or None
        None for a family or a kind of accelerator that was not measured.
    """
    constants = _constants(_part(kind))
    shares = constants["device_share"].get(kind)
    rows = [i for i, known in enumerate(constants["families"]) if known == family]
    if shares is None or not rows:
        return None
    rows.sort(key=lambda i: float(constants["log2_batch"][i]))
    batches = [constants["log2_batch"][i] for i in rows]
    return float(np.interp(np.log2(batch_size), batches, [shares[i] for i in rows]))


def load_of_type(
    job_type: str,
    kind: str,
    step_time_s: float,
    *,
    typical_share: float = _TYPICAL_SHARE,
) -> JobLoad:
    """Return the load of a job known by its type alone.

    Parameters
    ----------
    job_type : str
        ``"ResNet-50 (batch size 64)"``; any other name is a job of no measured family.
    kind : str
        Catalogue name of the accelerator.
    step_time_s : float
        Of a step alone on it.
    typical_share : float
        Device share where none was measured.

    Examples
    --------
    >>> load = load_of_type("LM (batch size 20)", "K80", 0.06)
    >>> load.family, load.batch_size, 0.5 < load.device_share < 0.9
    ('LM', 20, True)
    """
    name, batch_size = job_type_parts(job_type)
    family = family_of(name)
    share = None if family is None else known_device_share(family, batch_size, kind)
    return JobLoad(
        step_time_s=step_time_s,
        device_share=typical_share if share is None else share,
        family=family,
        batch_size=batch_size,
    )


def _part(kind: str) -> str:
    """Return which constants hold for a kind of accelerator: ``"cores"`` for CPUs, or the usual."""
    return "cores" if "cores" in fitted("colocation") and _is_cpu(kind) else ""


@lru_cache(maxsize=1024)
def _is_cpu(kind: str) -> bool:
    # Machines that were measured by themselves bear such names; to look one up may measure it.
    if kind.startswith(CPU_PREFIX):
        return True
    try:
        return Catalog.default().get(kind).kind == "cpu"
    except UnknownAcceleratorError:
        return False


def _constants(part: str) -> Mapping[str, Any]:
    constants = fitted("colocation")
    found: Mapping[str, Any] = constants[part] if part else constants
    return found


@cache
def _pair_model(part: str) -> PairModel:
    return PairModel.from_constants(_constants(part))
