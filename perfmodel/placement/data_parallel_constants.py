"""What the data-parallel step leaves open, with a physical meaning each, and its fitted values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.placement.fitted import fitted
from perfmodel.placement.groups import LinkClass

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class DataParallelConstants:
    """Constants of the data-parallel step.

    Parameters
    ----------
    link_slowdown : mapping of LinkClass to float
        How many times longer a collective takes inside a training step than by itself.
    contention : float
        Part of hidden communication by which it slows the computation that hides it, in [0, 1]:
        0 hides it fully, 1 not at all.
    straggler : float
        Relative spread of the times that equal accelerators need for one step.
    bucket_s : float
        To start one collective from the host.
    piece_s : float
        To put one gradient tensor into its bucket and to take it out.
    pack_bytes_per_s : float
        Rate at which gradients are copied into buckets and scaled.
    """

    link_slowdown: Mapping[LinkClass, float] = field(default_factory=lambda: MappingProxyType({}))
    contention: float = 0.3
    straggler: float = 0.01
    bucket_s: float = 3e-5
    piece_s: float = 5e-6
    pack_bytes_per_s: float = 2e11

    def slowdown_of(self, link: npt.NDArray[np.int64]) -> FloatArray:
        """Return the slowdown of each link class of an array; 1 where none is known."""
        table = np.array([self.link_slowdown.get(one, 1.0) for one in LinkClass])
        return np.asarray(table[link])

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> DataParallelConstants:
        """Read back what :meth:`to_dict` gave."""
        links = {LinkClass[name.upper()]: float(v) for name, v in plain["link_slowdown"].items()}
        others = {name: float(v) for name, v in plain.items() if name != "link_slowdown"}
        return cls(link_slowdown=MappingProxyType(links), **others)

    def to_dict(self) -> dict[str, Any]:
        """Return the constants as plain JSON values."""
        return {
            "link_slowdown": {link.name.lower(): v for link, v in self.link_slowdown.items()},
            "contention": self.contention,
            "straggler": self.straggler,
            "bucket_s": self.bucket_s,
            "piece_s": self.piece_s,
            "pack_bytes_per_s": self.pack_bytes_per_s,
        }


@cache
def fitted_constants() -> DataParallelConstants:
    """Return the constants that come with the package.

    Raises
    ------
    DamagedArtifactError
        Their file cannot be read.
    """
    return DataParallelConstants.from_dict(fitted("data_parallel"))
