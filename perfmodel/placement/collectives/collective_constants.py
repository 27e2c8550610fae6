"""What is learned of collectives: efficiencies, latencies and the cost of filling a pipe.

The constants are values: replace some to ask about other software or another fabric,
``dataclasses.replace(CollectiveConstants.fitted(), ...)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.collectives.collective_operations import (
    Collective,
    InSwitchConstants,
    OperationConstants,
    not_negative,
    share,
)
from perfmodel.placement.fitted import fitted
from perfmodel.placement.topology.links import LinkClass

__all__ = ["Collective", "CollectiveConstants"]


@dataclass(frozen=True, kw_only=True)
class CollectiveConstants:
    """All that is learned of collectives.

    Parameters
    ----------
    efficiency : mapping of LinkClass to mapping of Collective to float
        Share of the link's rate that long messages reach, in (0, 1].
    fill_scale, copy_scale : mapping of LinkClass to float
        Multiply the heights and the copy shares of the operations.
    latency_scale : mapping of LinkClass to float
        Latency of a hop within a collective over the latency that is stated for the link inside
        a host.
    link_latency_s : mapping of str to float
        Latencies that were learned for links of :data:`.links.LINKS`; see
        :mod:`perfmodel.placement.fabric.host_link`.
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
    @cache
    def fitted(cls) -> CollectiveConstants:
        """Return the constants fitted on published tables (NCCL as PyTorch calls it)."""
        return cls.from_dict(fitted("collectives"))

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
            "operations": {str(op): one.to_dict() for op, one in self.operations.items()},
            "in_switch": self.in_switch.to_dict(),
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

    @cached_property
    def by_link(self) -> Mapping[str, FloatArray]:
        """Scales by their names, and efficiencies by their operations, of each link class."""
        shares = {
            op.value: _by_position({link: by_op[op] for link, by_op in self.efficiency.items()})
            for op in Collective
        }
        scales = {name: _by_position(getattr(self, name), usual) for name, usual in _USUAL.items()}
        return shares | scales


#: Tables by link class, with what holds for classes that they leave out.
_USUAL: Mapping[str, float] = MappingProxyType(
    {"fill_scale": 1.0, "copy_scale": 0.0, "latency_scale": 1.0, "hop_overhead_s": 0.0}
)


def _by_position(values: Mapping[LinkClass, float], default: float = 1.0) -> FloatArray:
    table = np.full(len(LinkClass), default)
    for link, value in values.items():
        table[int(link)] = value
    return table


def _by_name(values: Mapping[LinkClass, float]) -> dict[str, float]:
    return {link.name.lower(): value for link, value in values.items()}


def _by_class(values: Mapping[str, Any]) -> Mapping[LinkClass, float]:
    found = {LinkClass[name.upper()]: not_negative(value) for name, value in values.items()}
    return MappingProxyType(found)


def _from_dict(values: Mapping[str, Any]) -> CollectiveConstants:
    return CollectiveConstants(
        operations=MappingProxyType(
            {op: OperationConstants.from_dict(values["operations"][op.value]) for op in Collective}
        ),
        in_switch=InSwitchConstants.from_dict(values["in_switch"]),
        efficiency=MappingProxyType(
            {
                LinkClass[name.upper()]: {op: share(shares[op.value]) for op in Collective}
                for name, shares in values["efficiency"].items()
            }
        ),
        fill_scale=_by_class(values["fill_scale"]),
        copy_scale=_by_class(values["copy_scale"]),
        latency_scale=_by_class(values["latency_scale"]),
        link_latency_s=MappingProxyType(
            {str(n): not_negative(v) for n, v in values["link_latency_s"].items()}
        ),
        hop_overhead_s=_by_class(values["hop_overhead_s"]),
        tree_hop=not_negative(values["tree_hop"]),
        least_latency_s=not_negative(values["least_latency_s"]),
    )
