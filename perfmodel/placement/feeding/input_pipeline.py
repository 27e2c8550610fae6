r"""The input pipeline of a host: whether data arrive as fast as the accelerators take them.

The accelerators of one host ask for :math:`n` samples a step. Their loaders share :math:`c` cores
and one store:

.. math:: T_{cpu} = \frac{n\,d}{\min(w, c)}, \qquad
          T_{store} = \max\left(\frac{n\,b}{B},\ \frac{n\,r\,\lambda}{w}\right),

with :math:`d` core-seconds to decode and augment a sample, :math:`w` workers, :math:`b` stored
bytes in :math:`r` files, bandwidth :math:`B` and the latency :math:`\lambda` of a file, which each
worker awaits one after another. Stages overlap, so that the pipeline takes
:math:`T_{in} = \max(T_{cpu}, T_{store})`. With prefetching workers it overlaps the step too and
only what sticks out is a stall,

.. math:: stall = \max(0,\ T_{in} - T_{step}) ;

without workers the main process loads between steps: one core, nothing overlaps, the sum of both
parts is the stall. What is left out: caches of the operating system, a slow first epoch, loaders
that starve the host of cores that it needs to launch operators, and bursts that a short prefetch
queue does not smooth.

Without cores and without bandwidth nothing is known of the host, and no stall is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.feeding.input_samples import SampleCost
from perfmodel.placement.topology.topology import Locality, Placement


@dataclass(frozen=True, kw_only=True, slots=True)
class Store:
    """A store as one host sees it.

    Parameters
    ----------
    latency_s : float
        Of one request.
    """

    bytes_per_s: float
    latency_s: float


#: Orders of magnitude of what one host gets; a stated bandwidth takes the place of the first.
STORES: Mapping[Locality, Store] = MappingProxyType(
    {
        Locality.MEMORY: Store(bytes_per_s=10e9, latency_s=1e-7),
        Locality.LOCAL_SSD: Store(bytes_per_s=2e9, latency_s=1e-4),
        Locality.LOCAL_HDD: Store(bytes_per_s=150e6, latency_s=8e-3),
        Locality.NFS: Store(bytes_per_s=500e6, latency_s=1e-3),
        Locality.OBJECT_STORE: Store(bytes_per_s=500e6, latency_s=3e-2),
    }
)


def input_stall(
    placement: Placement, sample: SampleCost, samples: npt.ArrayLike, step_time_s: npt.ArrayLike
) -> FloatArray:
    """Return the time that steps wait for their data.

    Parameters
    ----------
    placement : Placement
        Of each of its hosts: cores, without which decoding never limits; loader processes, all
        accelerators together, as many as cores where none are stated and 0 where the main process
        loads; and a store, by its bandwidth or by what it usually has.
    samples : array-like
        Samples that the accelerators of one host take in a step; of uneven hosts the fullest.
    step_time_s : array-like
        Of a step that has its data; broadcasts with ``samples``.

    Examples
    --------
    1,024 samples of 2 ms on 16 cores take 128 ms: 28 ms more than a step of 100 ms.

    >>> from perfmodel.placement.topology.topology import Node
    >>> host = Placement(nodes=(Node(accelerator="T4"),), cpu_cores=16)
    >>> photo = SampleCost(stored_bytes=1e5, cpu_s=2e-3)
    >>> round(float(input_stall(host, photo, 1024, 0.1)), 6)
    0.028
    """
    asked, step = np.broadcast_arrays(
        np.asarray(samples, dtype=np.float64), np.asarray(step_time_s, dtype=np.float64)
    )
    stated = (placement.cpu_cores, placement.storage_bytes_per_s, placement.storage_locality)
    alone = placement.loader_workers == 0 and any(one is not None for one in stated)
    at_once = 1.0 if alone else _at_once(placement)
    decode_s = asked * (sample.cpu_s / at_once)
    storage_s = asked * _storage_s_per_sample(placement, sample)
    if alone:
        return np.asarray(decode_s + storage_s)
    return np.asarray(np.maximum(np.maximum(decode_s, storage_s) - step, 0.0))


def _at_once(placement: Placement) -> float:
    """Return how many samples are decoded at a time."""
    cores, workers = placement.cpu_cores, placement.loader_workers
    if cores is None:
        return np.inf
    return float(cores if workers is None else min(cores, workers))


def _storage_s_per_sample(placement: Placement, sample: SampleCost) -> float:
    where = placement.storage_locality
    store = None if where is None else STORES[where]
    rate = placement.storage_bytes_per_s or (store.bytes_per_s if store else None)
    if rate is None or sample.stored_bytes == 0:
        return 0.0
    by_bandwidth = sample.stored_bytes / rate
    workers = placement.loader_workers
    readers = placement.cpu_cores if workers is None else workers
    if store is None or readers is None:
        return by_bandwidth
    return max(by_bandwidth, sample.files * store.latency_s / max(readers, 1.0))
