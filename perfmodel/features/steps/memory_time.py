r"""How long the traffic of a row takes: what lies in the cache comes faster than what does not.

A row moves ``B`` bytes. What it reads was written ``D`` bytes of traffic ago, and a cache of ``C``
bytes still holds a share of that; what it writes takes the place of what was last used as long
ago, and is used and overwritten in the cache as far as it stays there. Of a share ``h`` of the
traffic, for which this is so::

    found = B h min(1, C / D)
    t     = (B - found) / bandwidth + found / bandwidth of the cache

``h`` is 1 in inference. In training it is what is read, since results wait in the memory for the
backward pass or the optimizer. ``D`` is that of the largest operand, from
:mod:`perfmodel.features.dataflow`; of what a step is given it is the traffic of the whole step.
GPUs alone are told so: what CPUs take from their caches has no one rate a core.

What stays in a cache whose lines are replaced at random falls with ``C / D``, and not at once where
``D`` outgrows it, as it would if the oldest line always went.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.arrays import FloatArray
from perfmodel.features.nodes import PHASES
from perfmodel.features.steps.sketch import StepSketch
from perfmodel.types import Phase

#: What a core or multiprocessor moves to and from the last-level cache in a cycle, bytes: 20 on T4,
#: 18 on V100 (Jia et al., "Dissecting the NVidia Turing T4 GPU via Microbenchmarking", 2019).
CACHE_BYTES_PER_CORE_CYCLE = 20.0
#: Columns of what rows use again: share of their traffic, and how long ago it was used.
SHARE, DISTANCE_BYTES = range(2)
#: Columns of caches.
SIZE_BYTES, BANDWIDTH_BYTES_PER_S = range(2)
#: A device without a cache that is known.
_NO_CACHE = (0.0, 1.0)

Array = npt.NDArray[Any]


def reuse_of_rows(sketch: StepSketch) -> FloatArray:
    """Return ``h`` and ``D`` of every row of a sketch, shape (rows, 2)."""
    moved, read = (_bytes(sketch, f"log_{what}_bytes") for what in ("moved", "read"))
    distance = _bytes(sketch, "log_largest_reuse")
    share = np.minimum(read / np.maximum(moved, 1.0), 1.0)
    if not (sketch.phase != PHASES.index(Phase.FORWARD)).any():
        share = np.ones_like(share)
    return np.stack([share, np.maximum(distance, 1.0)], axis=1)


def _bytes(sketch: StepSketch, column: str) -> FloatArray:
    return np.exp2(sketch.column(column).astype(np.float64)) - 1.0


def cache_of(spec: AcceleratorSpec) -> tuple[float, float]:
    """Return size and bandwidth of the last-level cache of a GPU, bytes and bytes/s.

    Other devices, and those whose cache, cores or clock are not known, hold nothing.
    """
    if spec.kind != "gpu" or not (spec.cache_bytes and spec.core_count and spec.clock_hz):
        return _NO_CACHE
    bandwidth = CACHE_BYTES_PER_CORE_CYCLE * spec.core_count * spec.clock_hz
    return spec.cache_bytes, max(bandwidth, spec.bandwidth_bytes_per_s)


def memory_time_s(moved: Array, bandwidth: Array, reuse: Array, cache: Array) -> Array:
    """Return the time of the traffic of rows, seconds.

    Parameters
    ----------
    moved, bandwidth : ndarray, shape (entries,)
        Bytes, and bytes/s of the memory.
    reuse, cache : ndarray, shape (2, entries)
        Of :func:`reuse_of_rows` and :func:`cache_of`.
    """
    held = np.minimum(cache[SIZE_BYTES] / reuse[DISTANCE_BYTES], 1.0)
    found = moved * (reuse[SHARE] * held)
    return np.asarray((moved - found) / bandwidth + found / cache[BANDWIDTH_BYTES_PER_S])
