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
from typing import Self

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InvalidPlacementError
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


@dataclass(frozen=True, kw_only=True, slots=True)
class InputPipeline:
    """What feeds the accelerators of a host.

    Parameters
    ----------
    cpu_cores : float or None
        Of the host; None where unknown: decoding then never limits.
    workers : int or None
        Loader processes of the host, all accelerators together; None means as many as cores, or
        enough not to matter; 0 means that the main process loads.
    storage_bytes_per_s : float or None
        Of the host; None means that of ``locality``, and without that storage never limits.

    Raises
    ------
    InvalidPlacementError
        No core, no bandwidth or a negative number of workers.
    """

    sample: SampleCost
    cpu_cores: float | None = None
    workers: int | None = None
    storage_bytes_per_s: float | None = None
    locality: Locality | None = None

    @classmethod
    def of(cls, placement: Placement, sample: SampleCost) -> Self:
        """Return what feeds the accelerators of a host of a placement."""
        return cls(
            sample=sample,
            cpu_cores=placement.cpu_cores,
            workers=placement.loader_workers,
            storage_bytes_per_s=placement.storage_bytes_per_s,
            locality=placement.storage_locality,
        )

    def __post_init__(self) -> None:
        for name in ("cpu_cores", "storage_bytes_per_s"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0):
                raise InvalidPlacementError(
                    f"{name} must be above 0; got {value}.", pointer=f"/placement/{name}"
                )
        if self.workers is not None and self.workers < 0:
            raise InvalidPlacementError(
                f"loader_workers must be 0 or more; got {self.workers}.",
                pointer="/placement/loader_workers",
            )

    @property
    def is_stated(self) -> bool:
        """Whether anything is known that could limit the pipeline."""
        return (
            self.cpu_cores is not None
            or self.storage_bytes_per_s is not None
            or self.locality is not None
        )


def input_stall(
    pipeline: InputPipeline, samples: npt.ArrayLike, step_time_s: npt.ArrayLike
) -> FloatArray:
    """Return the time that steps wait for their data.

    Parameters
    ----------
    samples : array-like
        Samples that the accelerators of one host take in a step; of uneven hosts the fullest.
    step_time_s : array-like
        Of a step that has its data; broadcasts with ``samples``.

    Examples
    --------
    1,024 samples of 2 ms on 16 cores take 128 ms: 28 ms more than a step of 100 ms.

    >>> pipeline = InputPipeline(sample=SampleCost(stored_bytes=1e5, cpu_s=2e-3), cpu_cores=16)
    >>> round(float(input_stall(pipeline, 1024, 0.1)), 6)
    0.028
    """
    asked, step = np.broadcast_arrays(
        np.asarray(samples, dtype=np.float64), np.asarray(step_time_s, dtype=np.float64)
    )
    decode_s = asked * _decode_s_per_sample(pipeline)
    storage_s = asked * _storage_s_per_sample(pipeline)
    if pipeline.workers == 0 and pipeline.is_stated:
        return np.asarray(decode_s + storage_s)
    return np.asarray(np.maximum(np.maximum(decode_s, storage_s) - step, 0.0))


def _decode_s_per_sample(pipeline: InputPipeline) -> float:
    if pipeline.workers == 0 and pipeline.is_stated:
        return pipeline.sample.cpu_s
    if pipeline.cpu_cores is None:
        return 0.0
    at_once = pipeline.cpu_cores
    if pipeline.workers is not None:
        at_once = min(at_once, float(pipeline.workers))
    return pipeline.sample.cpu_s / at_once


def _storage_s_per_sample(pipeline: InputPipeline) -> float:
    size, store = pipeline.sample.stored_bytes, None
    if pipeline.locality is not None:
        store = STORES[pipeline.locality]
    rate = pipeline.storage_bytes_per_s or (store.bytes_per_s if store else None)
    if rate is None or size == 0:
        return 0.0
    by_bandwidth = size / rate
    if store is None:
        return by_bandwidth
    readers = pipeline.workers if pipeline.workers is not None else pipeline.cpu_cores
    if readers is None:
        return by_bandwidth
    return max(by_bandwidth, pipeline.sample.files * store.latency_s / max(readers, 1.0))
