r"""Goodput of jobs on configurations of a cluster: measured steps, and what a scheduler sees.

A configuration is a placement on one kind of accelerator. Training with :math:`n` accelerators and
a local batch :math:`b` makes the progress

.. math:: G = \frac{n b}{T(n, b)}\, \frac{\varphi + M_0}{\varphi + n b}

in samples at the initial batch :math:`M_0`, with a noise scale :math:`\varphi` of
:data:`NOISE_BATCHES` initial batches, which is made up: no table states it.

Reference: Qiao et al., OSDI 2021 (goodput); Jayaram Subramanya et al., Sia, SOSP 2023.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cluster_simulation.allocation import IntArray
from cluster_simulation.rounds import FloatArray, Placed

from perfmodel.adapters.sia import SiaCluster
from perfmodel.importers.jobs.sia_traces import CLUSTERS
from perfmodel.importers.registry import read_format

#: Initial global batch of each application, as Pollux and Sia train it.
INITIAL_BATCH = {"bert": 12, "cifar10": 128, "deepspeech2": 20, "imagenet": 200, "ncf": 256}
#: Noise scale over the initial batch.
NOISE_BATCHES = 16


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """Where a job may run: a digit for each node."""

    cluster: str
    placement: str

    @property
    def accelerators(self) -> int:
        """How many it takes."""
        return sum(map(int, self.placement))


@dataclass(frozen=True, kw_only=True)
class StepTable:
    """Step times of applications.

    Parameters
    ----------
    configurations : tuple of Configuration
    batch_sizes : tuple of int
        Samples of a replica, over all applications.
    step_time_s, sync_time_s : ndarray, shape (applications, configurations, batch sizes)
        NaN where there is none; the part that synchronises counts where it was measured.
    """

    applications: tuple[str, ...]
    configurations: tuple[Configuration, ...]
    batch_sizes: tuple[int, ...]
    step_time_s: FloatArray
    sync_time_s: FloatArray

    @property
    def accelerators(self) -> FloatArray:
        """Accelerators of each configuration."""
        return np.array([one.accelerators for one in self.configurations], dtype=np.float64)

    def goodput(self) -> FloatArray:
        """Return the progress, samples/s, in the shape of the steps; 0 where there is none."""
        first = np.array([INITIAL_BATCH[name] for name in self.applications])[:, None, None]
        together = self.accelerators[:, None] * np.array(self.batch_sizes)
        efficiency = (NOISE_BATCHES + 1) * first / (NOISE_BATCHES * first + together)
        return np.nan_to_num(together / self.step_time_s * efficiency)

    def initial(self) -> IntArray:
        """Return for each application and configuration which batch size is nearest to its own."""
        first = np.array([INITIAL_BATCH[name] for name in self.applications])[:, None, None]
        far = np.abs(np.log(np.array(self.batch_sizes) / first))
        return np.argmin(np.where(np.isfinite(self.step_time_s), far, np.inf), axis=2)


def measured_steps(data: Path, capacity: Mapping[str, int]) -> StepTable:
    """Read Sia's placements that its scheduler chooses from.

    Parameters
    ----------
    capacity : mapping of str to int
        Accelerators of each cluster.
    """
    configurations = tuple(
        Configuration(cluster=name, placement=placement)
        for name, most in capacity.items()
        for placement in sia_cluster(name, most // CLUSTERS[name].per_node).placements()
    )
    position = {(one.cluster, one.placement): at for at, one in enumerate(configurations)}
    rows = []
    for record in read_format("sia", data).placements:
        digits = "".join(str(node.count) * node.repeat for node in record.placement.nodes)
        column = position.get((record.settings["cluster"], digits))
        if column is not None:
            name = record.job_type.removeprefix("sia/")
            rows.append((name, column, record.batch_size, record.step_time_s, record.sync_time_s))
    applications = tuple(sorted({row[0] for row in rows}))
    sizes = tuple(sorted({row[2] for row in rows}))
    found = np.full((2, len(applications), len(configurations), len(sizes)), np.nan)
    for name, column, size, *times_s in rows:
        found[:, applications.index(name), column, sizes.index(size)] = times_s
    return StepTable(
        applications=applications,
        configurations=configurations,
        batch_sizes=sizes,
        step_time_s=found[0],
        sync_time_s=found[1],
    )


def sia_cluster(name: str, nodes: int) -> SiaCluster:
    """Return a cluster as the exporter of Sia's tables takes it."""
    kind = CLUSTERS[name]
    return SiaCluster(
        accelerator=kind.accelerator, per_node=kind.per_node, nodes=nodes, network=kind.network
    )


@dataclass(frozen=True, kw_only=True)
class MeasuredGoodput:
    """Goodput at which the jobs of a trace run: settings are configurations and batch sizes.

    Parameters
    ----------
    goodput : ndarray, shape (applications, configurations, batch sizes)
    subjects : sequence of int
        Application of each job of the trace.
    """

    goodput: FloatArray
    subjects: Sequence[int]

    def rates(self, placed: Placed) -> tuple[float, ...]:
        """Return the goodput of the one job of a placement."""
        column, size = divmod(placed.setting, self.goodput.shape[2])
        return (float(self.goodput[self.subjects[placed.jobs[0]], column, size]),)
