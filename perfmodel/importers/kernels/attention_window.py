"""Tell full attention from sliding-window attention where a table leaves the window out.

Tables of attention kernels hold models with and without a sliding window, but not always the
column that says which. Two signs are certain enough to refuse a row: the same call is listed
again with a much longer time, or the time beats the accelerator's peak if all earlier tokens are
attended to. What is left is taken for full attention.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.features.kernels.kernel_calls import kernel_calls
from perfmodel.features.kernels.kernel_columns import kernel_roofline
from perfmodel.importers.published import PublishedKernel, RejectedRow

#: Repeats of one call lie closer together than this; a window makes a larger difference.
SAME_CALL = 0.85


def full_attention(
    kernels: Sequence[PublishedKernel], rejected: list[RejectedRow]
) -> list[PublishedKernel]:
    """Return the calls that can be attention to all earlier tokens.

    Parameters
    ----------
    kernels : sequence of PublishedKernel
        Attention calls of one table.
    rejected : list of RejectedRow
        Gets the others, with the reason.

    Returns
    -------
    list of PublishedKernel
        In the order given.
    """
    slowest = _slowest(kernels)
    floor_s = _floor_s(kernels)
    kept = []
    for position, kernel in enumerate(kernels):
        if kernel.time_s < floor_s[position]:
            reason = "faster than the accelerator's peak if all tokens are attended to; a window?"
        elif kernel.time_s < SAME_CALL * slowest[position]:
            reason = "the same call is listed with a longer time; a window that is not stated?"
        else:
            kept.append(kernel)
            continue
        rejected.append(
            RejectedRow(file=kernel.origin.file, line=kernel.origin.line, reason=reason)
        )
    return kept


def _slowest(kernels: Sequence[PublishedKernel]) -> list[float]:
    """Return the longest time of each kernel's call."""
    keys = [
        (k.op, k.accelerator, k.dtype, k.kernel, tuple(sorted(k.shape.items()))) for k in kernels
    ]
    longest: defaultdict[object, float] = defaultdict(float)
    for key, kernel in zip(keys, kernels, strict=True):
        longest[key] = max(longest[key], kernel.time_s)
    return [longest[key] for key in keys]


def _floor_s(kernels: Sequence[PublishedKernel]) -> list[float]:
    if not kernels:
        return []
    catalog = Catalog.default()
    specs = {name: catalog.get(name) for name in {k.accelerator for k in kernels}}
    calls = kernel_calls(
        op=[k.op for k in kernels],
        dtype=[k.dtype for k in kernels],
        accelerator=[specs[k.accelerator] for k in kernels],
        shape=[k.shape for k in kernels],
    )
    return list(np.asarray(kernel_roofline(calls).floor_s).tolist())
