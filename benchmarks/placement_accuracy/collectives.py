"""Judge the times of collectives on what was left out: pairs, devices, generations of links.

Leaving one operation of one device out asks for a curve where the device's other operations were
seen; leaving the device out asks for it from the catalogue alone; leaving a generation of links out
asks for links that have no table.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from placement_accuracy.line import Line

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.least_squares import least_squares
from perfmodel.training.placement_fits.fit_collectives import fit_constants
from perfmodel.training.placement_rows.collective_rows import CollectiveCells, read_cells

Answer = Callable[[CollectiveCells, CollectiveCells], FloatArray]

#: Left out in the fast judgement: every so many.
_FAST = 6


def evaluate(data: Path, *, fast: bool = False) -> list[Line]:
    """Return the lines of unseen pairs, devices and generations of links.

    Parameters
    ----------
    fast : bool
        Some of the folds only.
    """
    cells = read_cells(data)
    plain, odd = cells.take(cells.plain), cells.take(~cells.plain)
    return [
        judged(
            plain,
            np.array(plain.pairs),
            name="collectives-pairs",
            title="Collective on a device, no row of that operation on that device seen",
            target=0.12,
            fast=fast,
        ),
        judged(
            plain,
            plain.accelerators,
            name="collectives-devices",
            title="Collective on a device without any table, catalogue facts alone",
            fast=fast,
        ),
        judged(
            plain,
            plain.links,
            name="collectives-links",
            title="Collective over a generation of links without any table",
            fast=fast,
        ),
        judged(
            odd,
            np.array(odd.pairs),
            seen=plain,
            name="collectives-odd",
            title="Rows kept out of the fit: launches of the host, cards without the bridge",
            note="Never fitted on; all-reduces of Vidur below 4 MiB and send/recv between A40.",
            fast=fast,
        ),
    ]


def judged(
    cells: CollectiveCells,
    left_out: npt.NDArray[np.str_],
    *,
    name: str,
    title: str,
    seen: CollectiveCells | None = None,
    target: float | None = None,
    note: str = "",
    fast: bool = False,
) -> Line:
    """Return the held-out answers to cells, each answered without what shares its word.

    Parameters
    ----------
    left_out : ndarray of str, shape (cells,)
        What each row is left out with; also the groups of the line.
    name, title, target, note
        Of the line.
    seen : CollectiveCells or None
        To fit on, where that is not the rest of ``cells``; rows of the same pair are left out.
    fast : bool
        Some of the words only.
    """
    words = np.unique(left_out)[:: _FAST if fast else 1]
    kept = np.isin(left_out, words)
    answers = {one: np.full(len(cells), np.nan) for one in ("", *_BASELINES)}
    for word in words:
        fold = left_out == word
        rest = cells.take(~fold) if seen is None else seen.take(np.array(seen.pairs) != word)
        asked = cells.take(fold)
        answers[""][fold] = asked.predicted_s(fit_constants(rest))
        for one, answer in _BASELINES.items():
            answers[one][fold] = answer(rest, asked)
    rows = cells.take(kept)
    sizes = rows.size_bytes
    return Line(
        name=name,
        title=title,
        measured=rows.time_s,
        predicted=answers[""][kept],
        groups=left_out[kept].tolist(),
        jobs=[f"{pair} {size:.0f}" for pair, size in zip(rows.pairs, sizes, strict=True)],
        baselines={one: answers[one][kept] for one in _BASELINES},
        target=target,
        note=note or "Median over versions of the library; 16-bit elements; NCCL and oneCCL.",
    )


def ring_answer(seen: CollectiveCells, asked: CollectiveCells) -> FloatArray:
    r"""Answer by a ring of one latency and one efficiency for each operation.

    .. math:: T = \alpha\, s + w S / (\eta B)

    with the steps :math:`s` and the wire share :math:`w` of a ring. NaN for an operation that was
    not seen.
    """
    times = np.full(len(asked), np.nan)
    for collective, mask in asked.by_collective():
        known = seen.take(seen.collectives == collective.value)
        if len(known):
            found = _ring_fit(known, collective)
            times[mask] = _ring_time_s(found, asked.take(mask), collective)
    return times


def _ring_fit(cells: CollectiveCells, collective: Collective) -> FloatArray:
    log_time = np.log(cells.time_s)

    def residuals(unknowns: FloatArray) -> FloatArray:
        return np.asarray(np.log(_ring_time_s(unknowns, cells, collective)) - log_time)

    return least_squares(residuals, np.log(np.array([5e-6, 0.7])))


def _ring_time_s(
    unknowns: FloatArray, cells: CollectiveCells, collective: Collective
) -> FloatArray:
    latency_s, efficiency = np.exp(unknowns)
    ranks = cells.groups.ranks
    passes = 2.0 if collective is Collective.ALL_REDUCE else 1.0
    sent = 1.0 if collective is Collective.SEND_RECV else (ranks - 1) / ranks
    wire_s = passes * sent * cells.size_bytes / (efficiency * cells.groups.intra_bytes_per_s)
    return np.asarray(latency_s * passes * (ranks - 1) + wire_s)


def nearest_answer(seen: CollectiveCells, asked: CollectiveCells) -> FloatArray:
    """Answer with the table of the device whose link is nearest in rate, between its sizes.

    NaN where no other device has the operation at that number of ranks.
    """
    times = np.full(len(asked), np.nan)
    rates = asked.groups.intra_bytes_per_s
    keys = np.stack([asked.groups.ranks, rates], axis=1)
    for collective, mask in asked.by_collective():
        for ranks, rate in np.unique(keys[mask], axis=0):
            rows = mask & (asked.groups.ranks == ranks) & (rates == rate)
            same = (seen.collectives == collective.value) & (seen.groups.ranks == ranks)
            if same.any():
                times[rows] = _nearest_table(seen.take(same), rate, asked.size_bytes[rows])
    return times


def _nearest_table(seen: CollectiveCells, rate: float, size_bytes: FloatArray) -> FloatArray:
    distance = np.abs(np.log(seen.groups.intra_bytes_per_s / rate))
    nearest = seen.accelerators[np.argmin(distance)]
    table = seen.take((seen.accelerators == nearest) & (distance == distance.min()))
    order = np.argsort(table.size_bytes)
    return np.exp(
        np.interp(np.log(size_bytes), np.log(table.size_bytes[order]), np.log(table.time_s[order]))
    )


_BASELINES: dict[str, Answer] = {
    "ring, two constants an operation": ring_answer,
    "table of the nearest link": nearest_answer,
}
