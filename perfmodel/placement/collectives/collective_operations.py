"""The operations that groups carry out together, and what is learned of each whatever the link."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
