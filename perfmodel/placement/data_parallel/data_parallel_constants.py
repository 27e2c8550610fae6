"""What the data-parallel step leaves open, with a physical meaning each, and its fitted values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType

from perfmodel.placement.fitted import fitted
from perfmodel.placement.fitted.forms import read_constants
from perfmodel.placement.topology.links import LinkClass


@dataclass(frozen=True, kw_only=True, slots=True)
class DataParallelConstants:
    """Constants of the data-parallel step.

    Parameters
    ----------
    link_slowdown : mapping of LinkClass to float
        How many times longer a collective takes inside a training step than by itself.
    crowding : float
        Exponent, >= 0, with which that grows over the ranks of a host beyond the four of one
        socket, where they talk over PCIe and share the way between the sockets.
    host_copy_bytes_per_s : float
        What the host's memory passes on for each accelerator, where they have no other way.
    contention : float
        Part of hidden communication by which it slows the computation that hides it, in [0, 1]:
        0 hides it fully, 1 not at all.
    straggler : float
        Relative spread of the times that equal accelerators need for one step.
    job_straggler : mapping of str to float
        The same for jobs whose samples differ in size, by the name of the model.
    bucket_s : float
        To start one collective from the host.
    piece_s : float
        To put one gradient tensor into its bucket and to take it out.
    pack_bytes_per_s : float
        Rate at which gradients are copied into buckets and scaled.
    """

    link_slowdown: Mapping[LinkClass, float] = field(default_factory=lambda: MappingProxyType({}))
    crowding: float = 0.5
    host_copy_bytes_per_s: float = 8e9
    contention: float = 0.3
    straggler: float = 0.01
    job_straggler: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    bucket_s: float = 3e-5
    piece_s: float = 5e-6
    pack_bytes_per_s: float = 2e11

    def straggler_of(self, job: str | None) -> float:
        """Return the spread of a job's steps, by the name of its model."""
        return self.job_straggler.get(job or "", self.straggler)


@cache
def fitted_constants() -> DataParallelConstants:
    """Return the constants that come with the package."""
    return read_constants(DataParallelConstants, fitted("data_parallel"))
