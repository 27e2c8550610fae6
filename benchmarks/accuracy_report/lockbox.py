"""The part of the report on the lockbox: beside the lines of the arena, what nobody looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from accuracy_report.goals import GOALS, Goal
from accuracy_report.kept_sections import LOCKBOX_HEADING
from accuracy_report.markdown import percent, table
from held_out.frozen_folds import LOCKBOX, LOCKED, locks
from held_out.held_out_answers import AnswerTable

from perfmodel.features.arrays import FloatArray, StrArray

#: Which part of the lockbox is asked what a split of the arena asks.
_ASKED_AS = {"unseen-device": "device", "unseen-family": "family", "random": "job"}
#: Rows below which a line says nothing.
_FEWEST_ROWS = 10
#: Standard errors from which on two figures differ.
_APART = 2.0


@dataclass(frozen=True, kw_only=True)
class Side:
    """One figure: the mean over rows, and how far it may lie by the choice of what was left out.

    Parameters
    ----------
    errors : ndarray, shape (rows,)
        ``|T^ / T - 1|``.
    units : ndarray of str, shape (rows,)
        Device, family or model that each row was left out with.
    """

    errors: FloatArray
    units: StrArray

    @property
    def mape(self) -> float:
        """Mean error."""
        return float(self.errors.mean())

    @property
    def spread(self) -> float | None:
        """Standard error of the mean, from the units; None where one alone was left out.

        With ``n_u`` rows of unit u of N, ``sum_u (n_u / N)^2 (m_u - m)^2``, times U / (U - 1).
        """
        names, place = np.unique(self.units, return_inverse=True)
        if len(names) < 2:
            return None
        off = np.bincount(place, weights=self.errors - self.mape) / len(self.errors)
        return float(np.sqrt(np.sum(off**2) * len(names) / (len(names) - 1)))

    def without_one(self, towards: float) -> tuple[str, float] | None:
        """Return the unit without which the mean comes nearest to a figure, and that mean.

        None where there is one unit alone.
        """
        names, place = np.unique(self.units, return_inverse=True)
        if len(names) < 2:
            return None
        sums = np.bincount(place, weights=self.errors)
        rest = (self.errors.sum() - sums) / (len(self.errors) - np.bincount(place))
        unit = int(np.argmin(np.abs(rest - towards)))
        return str(names[unit]), float(rest[unit])


@dataclass(frozen=True, kw_only=True)
class Beside:
    """A line of the arena and the same of the lockbox."""

    goal: Goal
    arena: Side
    lockbox: Side

    @property
    def apart(self) -> bool | None:
        """Whether both differ by more than their spread; None where that is not known."""
        spreads = [side.spread for side in (self.arena, self.lockbox) if side.spread is not None]
        if not spreads:
            return None
        # Of a single unit all that is known is how far others of its kind lie apart.
        alone = np.sqrt(len(np.unique(self.arena.units))) if len(spreads) == 1 else 1.0
        together = float(np.hypot(spreads[0], alone * spreads[-1]))
        return abs(self.lockbox.mape - self.arena.mape) > _APART * together


def compared(answers: AnswerTable, goals: Sequence[Goal] = GOALS) -> list[Beside]:
    """Return every line of which arena and lockbox have rows enough."""
    locked = answers.take(answers.split == LOCKBOX)
    why = locks(*(getattr(locked, name).tolist() for name in ("device", "family", "model", "mode")))
    found = []
    for goal in goals:
        if goal.probes or goal.split not in _ASKED_AS:
            continue
        lock = _ASKED_AS[goal.split]
        there = locked.take((why == lock) & goal.selection.of(locked))
        here = goal.rows(answers)
        if min(len(here), len(there)) >= _FEWEST_ROWS:
            found.append(Beside(goal=goal, arena=_side(here, lock), lockbox=_side(there, lock)))
    return found


def _side(rows: AnswerTable, lock: str) -> Side:
    units = {"device": rows.device, "family": rows.family, "job": rows.model}[lock]
    return Side(errors=np.abs(rows.predicted_s / rows.measured_s - 1.0), units=units)


def lockbox_lines(answers: AnswerTable) -> Iterator[str]:
    """Yield the section; nothing where the lockbox was not asked."""
    lines = compared(answers)
    if not lines:
        return
    yield from (LOCKBOX_HEADING, "")
    yield (
        f"A share of {percent(LOCKED)} of the devices, of the families and of the jobs (model and "
        "mode), by hash, takes part in no choice: every other line is learned from, and asked "
        "about, what lies outside. One fit on all of that is asked about the rest. Devices: those "
        "of the lockbox; families: on devices outside; jobs: of families and on devices outside. "
        "RTX PRO 6000 Max-Q lies inside, and with it all compiled steps on GPUs but those on "
        "RTX 4090: where that is left out, no other line has learned from a compiled step on a "
        "GPU. "
        "±: standard error by the choice of devices, families or models. Different: by more than "
        f"{_APART:.0f} of them."
    )
    yield ""
    header = ["asked", "arena, rows", "MAPE", "lockbox, rows", "MAPE", "median", "different"]
    yield from table(header, [_row(one) for one in lines])
    for one in lines:
        if one.apart:
            yield _why(one)
            yield ""


def _row(one: Beside) -> list[str]:
    return [
        one.goal.title,
        str(len(one.arena.errors)),
        _figure(one.arena),
        str(len(one.lockbox.errors)),
        f"**{_figure(one.lockbox)}**",
        percent(float(np.median(one.lockbox.errors))),
        {True: "yes", False: "no", None: "-"}[one.apart],
    ]


def _figure(side: Side) -> str:
    spread = "" if side.spread is None else f" ± {100 * side.spread:.1f}"
    return f"{100 * side.mape:.1f}{spread} %"


def _why(one: Beside) -> str:
    parts = []
    sides = (("the arena", one.arena, one.lockbox), ("the lockbox", one.lockbox, one.arena))
    for name, side, other in sides:
        units = np.unique(side.units)
        pulled = side.without_one(other.mape)
        if pulled is None:
            parts.append(f"{name} has {units[0]} alone")
        else:
            parts.append(
                f"{name} has {len(units)}, and is {percent(pulled[1])} without {pulled[0]}"
            )
    return f"*{one.goal.title}*: {'; '.join(parts)}."
