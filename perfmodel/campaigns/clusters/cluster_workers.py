"""What a cluster is told of the workers that it shall start."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterWorkers:
    """The workers of a campaign on a cluster.

    Parameters
    ----------
    database : str
        URL, as the nodes reach it.
    workers : int
        How many; each measures until nothing is left for its device.
    gpus : int
        Accelerators that each of them gets; 0: it measures the processor.
    out : str
        Folder of the records, as the nodes see it; they may share it.
    """

    campaign: str
    database: str
    workers: int = 1
    gpus: int = 0
    out: str = "profiles"

    @property
    def command(self) -> tuple[str, ...]:
        """What a node runs; the database comes from its environment."""
        device = ("--device", "gpu") if self.gpus else ()
        return ("perfmodel", "campaign", "work", self.campaign, "--out", self.out, *device)
