"""What is learned of collectives: efficiencies, latencies and the cost of filling a pipe.

The constants are values: replace some to ask about other software or another fabric,
``dataclasses.replace(CollectiveConstants.fitted(), ...)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.errors import DamagedArtifactError
from perfmodel.placement.fitted import fitted
from perfmodel.placement.groups import IntArray, LinkClass

FloatArray = npt.NDArray[np.float64]


class Collective(StrEnum):
    """Operations that a group of accelerators carries out together."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"
    SEND_RECV = "send_recv"


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationConstants:
    """What is learned of one operation, whatever the link.

    Parameters
    ----------
    launch_hops : float
        Start of the operation, in latencies of a hop.
    hop_factor : float
        Latency of one of its steps, in latencies of a hop.
    copy_share : float
        Copy of a rank's own shard, as a share of the time that its link would take for it, 0 to 1.
    fixed_s_per_byte : float
        Work on each byte of the payload that no link speeds up (reduction, copies in memory).
    fill_heights, fill_widths : tuple of float
        Further latencies paid once a message outgrows one protocol for the next, and the ratio of
        transfer to latency at which half of each is paid.
    """

    launch_hops: float
    hop_factor: float
    copy_share: float
    fixed_s_per_byte: float
    fill_heights: tuple[float, ...]
    fill_widths: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class InSwitchConstants:
    """Reduction inside the switch (NVLink SHARP).

    Parameters
    ----------
    efficiency : float
        Of the link, each rank sending and receiving the payload once; in (0, 1].
    launch_hops : float
        Start and the way through the switch, in latencies of a hop.
    fixed_s_per_byte : float
        Work on each byte that no link speeds up.
    least_bytes_per_s : float
        Links of the first generation whose switch reduces. The columns of a group do not name
        generations; those before it are slower.
    """

    efficiency: float
    launch_hops: float
    fixed_s_per_byte: float
    least_bytes_per_s: float = 4e11


@dataclass(frozen=True, kw_only=True)
class CollectiveConstants:
    """All that is learned of collectives.

    Parameters
    ----------
    operations : mapping of Collective to OperationConstants
    in_switch : InSwitchConstants
    efficiency : mapping of LinkClass to mapping of Collective to float
        Share of the link's rate that long messages reach, in (0, 1].
    fill_scale, copy_scale : mapping of LinkClass to float
        Multiply the heights and the copy shares of the operations.
    latency_scale : mapping of LinkClass to float
        Latency of a hop within a collective over the latency that is stated for the link inside
        a host.
    link_latency_s : mapping of str to float
        Latencies that were learned for links of :data:`perfmodel.placement.links.LINKS`, to be
        stated in place of those there.
    hop_overhead_s : mapping of LinkClass to float
        What the library adds to each hop between hosts (proxy threads, sockets).
    tree_hop : float
        Latency of a level of a tree inside a host, in latencies of a hop.
    least_latency_s : float
        Scaled latency that the start of an operation is reckoned with at least.
    """

    operations: Mapping[Collective, OperationConstants]
    in_switch: InSwitchConstants
    efficiency: Mapping[LinkClass, Mapping[Collective, float]]
    fill_scale: Mapping[LinkClass, float]
    copy_scale: Mapping[LinkClass, float]
    latency_scale: Mapping[LinkClass, float]
    link_latency_s: Mapping[str, float]
    hop_overhead_s: Mapping[LinkClass, float]
    tree_hop: float = 2.5
    least_latency_s: float = 7e-7

    @classmethod
    def fitted(cls) -> CollectiveConstants:
        """Return the constants fitted on published tables (NCCL as PyTorch calls it)."""
        return _shipped()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CollectiveConstants:
        """Read constants from plain JSON values.

        Raises
        ------
        DamagedArtifactError
            A value is missing or is not what :meth:`to_dict` writes.
        """
        try:
            return _from_dict(values)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedArtifactError(
                f"The constants of collectives cannot be read ({error!r}). "
                "Install the package again, or run: perfmodel fit-placement."
            ) from error

    def to_dict(self) -> dict[str, Any]:
        """Return the constants as plain JSON values."""
        return {
            "operations": {str(op): _plain(one) for op, one in self.operations.items()},
            "in_switch": _plain(self.in_switch),
            "efficiency": {
                link.name.lower(): {str(op): share for op, share in shares.items()}
                for link, shares in self.efficiency.items()
            },
            "fill_scale": _by_name(self.fill_scale),
            "copy_scale": _by_name(self.copy_scale),
            "latency_scale": _by_name(self.latency_scale),
            "link_latency_s": dict(self.link_latency_s),
            "hop_overhead_s": _by_name(self.hop_overhead_s),
            "tree_hop": self.tree_hop,
            "least_latency_s": self.least_latency_s,
        }

    def efficiency_of(self, collective: Collective, links: IntArray) -> FloatArray:
        """Return the efficiency of an operation on each link class."""
        return np.asarray(self._tables[collective.value][links])

    def fill_scale_of(self, links: IntArray) -> FloatArray:
        """Return the scale of the filling cost of each link class."""
        return np.asarray(self._tables["fill"][links])

    def copy_scale_of(self, links: IntArray) -> FloatArray:
        """Return the scale of the copy shares of each link class."""
        return np.asarray(self._tables["copy"][links])

    def latency_scale_of(self, links: IntArray) -> FloatArray:
        """Return the scale of the latencies of each link class."""
        return np.asarray(self._tables["latency"][links])

    def hop_overhead_of(self, links: IntArray) -> FloatArray:
        """Return what each hop on a link class costs beyond the wire, in seconds."""
        return np.asarray(self._tables["overhead"][links])

    @cached_property
    def _tables(self) -> Mapping[str, FloatArray]:
        """Columns by link class, made once."""
        shares = {
            op.value: _by_position({link: by_op[op] for link, by_op in self.efficiency.items()})
            for op in Collective
        }
        return shares | {
            "fill": _by_position(self.fill_scale),
            "copy": _by_position(self.copy_scale, 0.0),
            "latency": _by_position(self.latency_scale),
            "overhead": _by_position(self.hop_overhead_s, 0.0),
        }


def hop_latency_s(
    link: str, stated_s: float, constants: CollectiveConstants | None = None
) -> float:
    """Return the latency of a hop of a link inside a host.

    Parameters
    ----------
    link : str
        A key of :data:`perfmodel.placement.links.LINKS`, such as ``"nvswitch4"``.
    stated_s : float
        For a link that was not measured, seconds.
    constants : CollectiveConstants or None
        The shipped ones where None.

    Returns
    -------
    float
        Seconds, for ``CommGroups.intra_latency_s``.
    """
    known = constants or CollectiveConstants.fitted()
    return known.link_latency_s.get(link, stated_s)


@cache
def _shipped() -> CollectiveConstants:
    return CollectiveConstants.from_dict(fitted("collectives"))


def _by_position(values: Mapping[LinkClass, float], default: float = 1.0) -> FloatArray:
    table = np.full(len(LinkClass), default)
    for link, value in values.items():
        table[int(link)] = value
    return table


def _plain(value: OperationConstants | InSwitchConstants) -> dict[str, Any]:
    return {
        name: list(field) if isinstance(field, tuple) else field
        for name, field in asdict(value).items()
    }


def _by_name(values: Mapping[LinkClass, float]) -> dict[str, float]:
    return {link.name.lower(): value for link, value in values.items()}


def _by_class(values: Mapping[str, Any]) -> Mapping[LinkClass, float]:
    found = {LinkClass[name.upper()]: _not_negative(value) for name, value in values.items()}
    return MappingProxyType(found)


def _not_negative(value: Any) -> float:
    number = float(value)
    if not (np.isfinite(number) and number >= 0):
        raise ValueError(f"{value!r} is negative or not finite")
    return number


def _share(value: Any) -> float:
    number = float(value)
    if not 0 < number <= 1:
        raise ValueError(f"{value!r} is no share")
    return number


def _operation(values: Mapping[str, Any]) -> OperationConstants:
    def number(name: str) -> float:
        return _not_negative(values[name])

    def numbers(name: str) -> tuple[float, ...]:
        return tuple(_not_negative(value) for value in values[name])

    return OperationConstants(
        launch_hops=number("launch_hops"),
        hop_factor=number("hop_factor"),
        copy_share=number("copy_share"),
        fixed_s_per_byte=number("fixed_s_per_byte"),
        fill_heights=numbers("fill_heights"),
        fill_widths=numbers("fill_widths"),
    )


def _from_dict(values: Mapping[str, Any]) -> CollectiveConstants:
    in_switch = values["in_switch"]
    _share(in_switch["efficiency"])
    return CollectiveConstants(
        operations=MappingProxyType(
            {op: _operation(values["operations"][op.value]) for op in Collective}
        ),
        in_switch=InSwitchConstants(**{n: _not_negative(v) for n, v in in_switch.items()}),
        efficiency=MappingProxyType(
            {
                LinkClass[name.upper()]: {op: _share(shares[op.value]) for op in Collective}
                for name, shares in values["efficiency"].items()
            }
        ),
        fill_scale=_by_class(values["fill_scale"]),
        copy_scale=_by_class(values["copy_scale"]),
        latency_scale=_by_class(values["latency_scale"]),
        link_latency_s=MappingProxyType(
            {str(n): _not_negative(v) for n, v in values["link_latency_s"].items()}
        ),
        hop_overhead_s=_by_class(values["hop_overhead_s"]),
        tree_hop=_not_negative(values["tree_hop"]),
        least_latency_s=_not_negative(values["least_latency_s"]),
    )
