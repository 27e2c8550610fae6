r"""Parts of an accelerator: MIG slices by profile, and shares of its SMs by ``fraction``.

A profile such as ``3g.20gb`` names compute slices (of 7, on A30 of 4) and memory. Memory comes in
eighths of the card (A30: quarters), and bandwidth and last-level cache with it; a compute slice
holds an eighth of the SMs, in pairs: 14 of the 108 of an A100, 16 of the 132 of an H100. The
profile of the whole card has what MIG leaves over: 98 of 108 on an A100, all of them later.

A share of the SMs (MPS's active thread percentage) takes only arithmetic away: half of the SMs
draw nearly the whole bandwidth, so that bandwidth is taken as :math:`\min(1, 2 f)`; memory as
:math:`f`, which is what one tenant may count on. That factor 2 is a round figure, not a fit.

Cores of a CPU are a part too: they take arithmetic away, and bandwidth as SMs do, but no memory.

How a step slows down on a part, given its times on the whole: with the device share :math:`u`,
of which :math:`m` is spent moving bytes at the peak bandwidth, :math:`c` on the cores (at their
peak or below it, waiting for operands: fewer cores wait longer) and the rest on neither, on a part
with compute share :math:`s` and bandwidth share :math:`w`,

.. math:: S = \max\left(1,\ u\,(c / s + m / w + 1 - c - m)\right) .

Kernels too small to fill the whole accelerator lose less: the answer errs on the slow side.

References: NVIDIA Multi-Instance GPU User Guide (profiles); NVIDIA Multi-Process Service
documentation (active thread percentage).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidPlacementError
from perfmodel.features.arrays import FloatArray

_PROFILE = re.compile(r"(?:(?P<part>\d+)c\.)?(?P<slices>\d+)g\.(?P<memory>\d+)gb")
_BANDWIDTH_PER_SM_SHARE = 2.0
#: Names of cards count memory in units of 2**30 bytes.
_GIGABYTE = 2.0**30


@dataclass(frozen=True, kw_only=True, slots=True)
class _Card:
    """How MIG cuts up a card: memory as marketed, its compute slices, and the profiles it offers.

    ``whole_sms`` are the SMs of the profile of the whole card, where they are not all.
    """

    memory_gb: int
    compute_slices: int
    memory_slices: int
    profiles: tuple[str, ...]
    whole_sms: int | None = None


_HALVES = ("3g", "4g")


def _card(memory_gb: int, small: int, *, whole_sms: int | None = None) -> _Card:
    """Return a card of seven compute slices whose smallest profile has ``small`` gigabytes."""
    # Names round to the nearest gigabyte, halves up: 71 is half of 141.
    quarter, half = (int(memory_gb / parts + 0.5) for parts in (4, 2))
    profiles = (f"1g.{small}gb", f"1g.{quarter}gb", f"2g.{quarter}gb")
    return _Card(
        memory_gb=memory_gb,
        compute_slices=7,
        memory_slices=8,
        profiles=(*profiles, *(f"{g}.{half}gb" for g in _HALVES), f"7g.{memory_gb}gb"),
        whole_sms=whole_sms,
    )


#: How the cards of a name are cut; the one nearest in memory is taken.
_CARDS: Mapping[str, tuple[_Card, ...]] = MappingProxyType(
    {
        "A30": (
            _Card(
                memory_gb=24,
                compute_slices=4,
                memory_slices=4,
                profiles=("1g.6gb", "2g.12gb", "4g.24gb"),
            ),
        ),
        "A100": (_card(40, 5, whole_sms=98), _card(80, 10, whole_sms=98)),
        "H100": (_card(80, 10), _card(94, 12), _card(96, 12)),
        "GH200": (_card(96, 12), _card(144, 18)),
        "H200": (_card(141, 18),),
        "B200": (_card(180, 23),),
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceleratorPart:
    """A part of an accelerator, as shares of the whole.

    Parameters
    ----------
    name : str
        MIG profile (``"1g.5gb"``), share (``"0.5"``) or cores (``"8-cores"``).
    sm_share, memory_share, bandwidth_share : float
        In (0, 1].
    isolated : bool
        Whether nobody else draws on its memory bandwidth: true for MIG.
    """

    name: str
    sm_share: float
    memory_share: float
    bandwidth_share: float
    isolated: bool


def mig_part(spec: AcceleratorSpec, profile: str) -> AcceleratorPart:
    """Return what a MIG profile leaves of an accelerator.

    Parameters
    ----------
    profile : str
        ``"<g>g.<memory>gb"``, also ``"<c>c.<g>g.<memory>gb"`` for a part of a slice's SMs.

    Raises
    ------
    InvalidPlacementError
        An accelerator without MIG, or a profile that it does not offer; lists those it does.

    Examples
    --------
    >>> from perfmodel.devices.catalog import Catalog
    >>> part = mig_part(Catalog.default().get("A100-SXM4-40GB"), "3g.20gb")
    >>> round(part.sm_share * 108), part.memory_share, part.bandwidth_share
    (42, 0.5, 0.5)
    """
    card = _card_of(spec)
    match = _PROFILE.fullmatch(profile.strip().lower())
    if match is None or f"{match['slices']}g.{match['memory']}gb" not in card.profiles:
        raise InvalidPlacementError(
            f"{spec.name} offers no MIG profile {profile!r}. It offers {', '.join(card.profiles)}.",
            allowed=card.profiles,
        )
    slices = int(match["slices"])
    used = int(match["part"] or slices)
    if not 1 <= used <= slices:
        raise InvalidPlacementError(
            f"{profile!r} takes {used} compute slices out of a slice that has {slices}.",
        )
    memory_slices = max(1, round(card.memory_slices * int(match["memory"]) / card.memory_gb))
    return AcceleratorPart(
        name=profile.strip().lower(),
        sm_share=_sm_share(spec, card, used),
        memory_share=memory_slices / card.memory_slices,
        bandwidth_share=memory_slices / card.memory_slices,
        isolated=True,
    )


def share_part(fraction: float, *, pointer: str = "/placement/fraction") -> AcceleratorPart:
    """Return what a share of the SMs leaves of an accelerator.

    Parameters
    ----------
    fraction : float
        In (0, 1].

    Raises
    ------
    InvalidPlacementError
        A share outside (0, 1].

    Examples
    --------
    >>> share_part(0.25).bandwidth_share
    0.5
    """
    if not 0 < fraction <= 1:
        raise InvalidPlacementError(
            f"fraction must be above 0 and at most 1; got {fraction}.", pointer=pointer
        )
    return AcceleratorPart(
        name=f"{fraction:g}",
        sm_share=fraction,
        memory_share=fraction,
        bandwidth_share=min(1.0, _BANDWIDTH_PER_SM_SHARE * fraction),
        isolated=False,
    )


def core_part(spec: AcceleratorSpec, cores: float) -> AcceleratorPart | None:
    """Return what some cores of a CPU are of it; None where they are all.

    Parameters
    ----------
    spec : AcceleratorSpec
        A CPU.
    cores : float
        Of this one socket, > 0.

    Examples
    --------
    >>> from perfmodel.devices.catalog import Catalog
    >>> part = core_part(Catalog.default().get("EPYC-9654"), 24)
    >>> part.sm_share, part.bandwidth_share, part.memory_share
    (0.25, 0.5, 1.0)
    """
    if spec.core_count is None or cores >= spec.core_count:
        return None
    share = cores / spec.core_count
    return AcceleratorPart(
        name=f"{cores:g}-cores",
        sm_share=share,
        memory_share=1.0,
        bandwidth_share=min(1.0, _BANDWIDTH_PER_SM_SHARE * share),
        isolated=False,
    )


def part_accelerator(spec: AcceleratorSpec, part: AcceleratorPart) -> AcceleratorSpec:
    """Return the facts of a part as an accelerator of its own.

    Returns
    -------
    AcceleratorSpec
        ``"<whole>/<part>"``; a MIG slice has no link to its neighbours. Its power limit is that
        of the board, which it shares.
    """
    sms, accumulate = spec.core_count, spec.peak_flops_fp16_accumulate
    return replace(
        spec,
        name=f"{spec.name}/{part.name}",
        peak_flops={rate: peak * part.sm_share for rate, peak in spec.peak_flops.items()},
        peak_flops_fp16_accumulate=None if accumulate is None else accumulate * part.sm_share,
        memory_bytes=spec.memory_bytes * part.memory_share,
        bandwidth_bytes_per_s=spec.bandwidth_bytes_per_s * part.bandwidth_share,
        cache_bytes=None if spec.cache_bytes is None else spec.cache_bytes * part.memory_share,
        core_count=None if sms is None else max(1, round(sms * part.sm_share)),
        link=None if part.isolated else spec.link,
        link_bandwidth_bytes_per_s=None if part.isolated else spec.link_bandwidth_bytes_per_s,
    )


def part_slowdown(
    part: AcceleratorPart,
    device_share: FloatArray,
    compute_bound_share: FloatArray,
    memory_bound_share: FloatArray,
) -> FloatArray:
    """Return how many times as long steps take on a part as on the whole; analytical.

    Parameters
    ----------
    device_share : ndarray
        Share of the step during which the whole accelerator works, in (0, 1].
    compute_bound_share, memory_bound_share : ndarray
        Parts of that time that go with the cores and with the bandwidth; together at most 1.

    Returns
    -------
    ndarray
        >= 1; falls with a larger part.

    Examples
    --------
    Half compute and half memory bound on a quarter of both:

    >>> quarter = AcceleratorPart(
    ...     name="x", sm_share=0.25, memory_share=0.25, bandwidth_share=0.25, isolated=True
    ... )
    >>> part_slowdown(quarter, np.array([1.0, 0.1]), np.array([0.5]), np.array([0.5])).tolist()
    [4.0, 1.0]
    """
    rest = 1 - compute_bound_share - memory_bound_share
    longer = compute_bound_share / part.sm_share + memory_bound_share / part.bandwidth_share + rest
    return np.asarray(np.maximum(1.0, device_share * longer))


def _card_of(spec: AcceleratorSpec) -> _Card:
    words = re.split(r"[-_ ]", spec.name.upper())
    cards = next((cards for word, cards in _CARDS.items() if word in words), ())
    if not cards or spec.core_count is None:
        raise InvalidPlacementError(
            f"{spec.name} has no MIG slices that are known here. Known are those of "
            f"{', '.join(_CARDS)}; for any other card, give its share as `fraction`.",
        )
    return min(cards, key=lambda card: abs(card.memory_gb * _GIGABYTE - spec.memory_bytes))


def _sm_share(spec: AcceleratorSpec, card: _Card, slices: int) -> float:
    sms = spec.core_count or 1
    if slices == card.compute_slices:
        return (card.whole_sms or sms) / sms
    pairs_per_slice = round(sms / card.memory_slices / 2)
    return min(1.0, slices * 2 * pairs_per_slice / sms)
