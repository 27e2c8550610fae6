"""In what two cells of job types are alike: their jobs, their places, their partners.

Cells are many and the kinds of them few, so that likeness is computed between distinct kinds and
put together by position.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmodel.features.arrays import FloatArray, IntArray, StrArray
from perfmodel.placement.job_types.job_type_cells import JobTypeCells

#: Which jobs share an effect.
LEVELS = ("table", "name", "batch")
#: What the mean of the logarithm of a step time is linear in.
FEATURES = ("one", "batch", "speed", "several", "crossing", "count", "shared")

#: Distance of batch sizes, in doublings, over which jobs of one name stay alike.
_DOUBLINGS = 3.0
#: Doublings that another device counts as.
_OTHER_DEVICE = 8.0
#: Distance of counts, in doublings, over which crossing hosts costs alike.
_COUNT_DOUBLINGS = 2.0


@dataclass(frozen=True, kw_only=True)
class Kinds:
    """Distinct rows of some columns.

    Parameters
    ----------
    first : ndarray of int, shape (kinds,)
        The first cell of each kind.
    index : ndarray of int, shape (cells,)
        Which kind each cell is of.
    """

    first: IntArray
    index: IntArray

    @classmethod
    def of(cls, *columns: StrArray | FloatArray) -> Kinds:
        """Find the kinds.

        Examples
        --------
        >>> Kinds.of(np.array(["a", "b", "a"]), np.array([1.0, 1.0, 1.0])).index.tolist()
        [0, 1, 0]
        """
        code = np.zeros(len(columns[0]), dtype=np.int64)
        for column in columns:
            values, inverse = np.unique(column, return_inverse=True)
            _, code = np.unique(code * max(len(values), 1) + inverse, return_inverse=True)
        _, first, index = np.unique(code, return_index=True, return_inverse=True)
        return cls(first=first, index=index)


def jobs_of(cells: JobTypeCells) -> Kinds:
    """Return the distinct jobs: job types at one batch size."""
    return Kinds.of(cells.job_type, cells.batch_size)


def places_of(cells: JobTypeCells) -> Kinds:
    """Return the distinct placements, whatever runs beside."""
    return Kinds.of(
        cells.accelerator, cells.count, cells.hosts, cells.network, cells.shares, cells.settings
    )


def partners_of(cells: JobTypeCells) -> Kinds:
    """Return the distinct jobs beside."""
    return Kinds.of(cells.partner_type, cells.partner_batch)


def equal(a: StrArray | FloatArray, b: StrArray | FloatArray) -> FloatArray:
    """Return 1 where two columns agree, shape (len(a), len(b))."""
    return np.asarray(a[:, None] == b[None, :], dtype=np.float64)


def doublings(batch_size: FloatArray) -> FloatArray:
    """Return the logarithm of batch sizes, of order one."""
    return np.asarray(np.log2(batch_size) / 3)


def levels(
    names: StrArray, batches: FloatArray, other_names: StrArray, other_batches: FloatArray
) -> dict[str, FloatArray]:
    """Return how much two sets of jobs share on each of :data:`LEVELS`, in [0, 1]."""
    same = equal(names, other_names)
    return {
        "table": np.ones(same.shape),
        "name": same,
        "batch": same * _near(batches, other_batches, _DOUBLINGS),
    }


def effects(a: JobTypeCells, b: JobTypeCells) -> dict[str, FloatArray]:
    """Return the product of what each effect acts on, for two sets of places."""
    left, right = _factors(a), _factors(b)
    acts = {name: np.outer(left[name], right[name]) for name in left}
    device = equal(a.accelerator, b.accelerator)
    acts["one"] = np.ones(device.shape)
    acts["device"] = device
    acts["device_several"] = device * acts["several"]
    acts["device_crossing"] = device * acts["crossing"] * equal(a.network, b.network)
    acts["device_count"] = device * acts["count"]
    acts["crossing_count"] = acts["crossing"] * _near(a.count, b.count, _COUNT_DOUBLINGS)
    acts["cell"] = device * equal(a.count, b.count) * equal(a.hosts, b.hosts)
    return acts


def nearest_cells(asked: JobTypeCells, known: JobTypeCells) -> IntArray:
    """Return the three known cells nearest to each asked one, best first, as positions.

    Doublings of batch, accelerators and hosts count alike; another device counts as many.
    """
    away = _OTHER_DEVICE * (1 - equal(asked.accelerator, known.accelerator))
    for name in ("batch_size", "count", "hosts"):
        a, b = np.log2(getattr(asked, name)), np.log2(getattr(known, name))
        away += np.abs(a[:, None] - b[None, :])
    return np.argsort(away, axis=1, kind="stable")[:, :3]


def features(cells: JobTypeCells) -> FloatArray:
    """Return :data:`FEATURES` of cells, shape (cells, features), each of order one."""
    factors = _factors(cells)
    columns = {
        **factors,
        "one": np.ones(len(cells)),
        "batch": doublings(cells.batch_size),
        "shared": cells.is_shared,
    }
    return np.stack([columns[name] for name in FEATURES], axis=1)


def _factors(cells: JobTypeCells) -> dict[str, FloatArray]:
    return {
        "speed": cells.log_speed,
        "several": np.asarray(cells.count > 1, dtype=np.float64),
        "crossing": np.asarray(cells.hosts > 1, dtype=np.float64),
        "count": np.log2(cells.count) / 2,
        "wire": cells.log_wire,
    }


def _near(a: FloatArray, b: FloatArray, width: float) -> FloatArray:
    apart = (np.log2(a)[:, None] - np.log2(b)[None, :]) / width
    return np.asarray(np.exp(-0.5 * apart**2))
