"""How the product that a call resembles can be cut into tiles over the multiprocessors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.features.kernels.kernel_work import KernelWork

#: Output tiles of libraries, rows by columns, and into how many parts they cut the depth.
TILES = ((32, 32), (64, 64), (128, 32), (32, 128), (128, 64), (64, 128), (128, 128), (256, 128))
DEPTH_PARTS = (1, 2, 4, 8, 16)
#: Depth that a part has at least.
LEAST_DEPTH = 64.0


@dataclass(frozen=True, kw_only=True)
class Cut:
    """One way to cut many products.

    Parameters
    ----------
    rows, columns, parts : int
        Of a tile, and of the depth.
    rounds : ndarray
        Tiles that the busiest multiprocessor has, one after another: a partial wave counts whole.
    depth : ndarray
        Of a part.
    possible : ndarray of bool
        Whether the depth suffices.
    """

    rows: int
    columns: int
    parts: int
    rounds: FloatArray
    depth: FloatArray
    possible: np.ndarray


def cuts(work: KernelWork, core_count: FloatArray) -> Iterator[Cut]:
    """Yield every way to cut some products over the multiprocessors of their devices."""
    for rows, columns in TILES:
        tiles = work.batch * np.ceil(work.m / rows) * np.ceil(work.n / columns)
        for parts in DEPTH_PARTS:
            depth = work.k / parts
            yield Cut(
                rows=rows,
                columns=columns,
                parts=parts,
                rounds=np.ceil(tiles * parts / core_count),
                depth=depth,
                possible=(depth >= LEAST_DEPTH) | (parts == 1),
            )
