"""Steps of jobs on placements as columns: what a calibration compares and corrects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InvalidInputError
from perfmodel.features.arrays import Columns, FloatArray, StrArray
from perfmodel.placement.estimate import StepNumbers, StepParts
from perfmodel.placement.fabric.world_group import WorldGroup
from perfmodel.placement.topology.links import LinkClass
from perfmodel.placement.topology.topology import Network

Codes = npt.NDArray[np.int64]

#: Of what runs on the accelerator, the part beside which gradients can be exchanged.
USUAL_WINDOW_SHARE = 0.6
_TEXTS = ("job", "machine", "fabric", "setting", "wiring")
_NUMBERS = (
    "batch_size", "micro_batches", "ranks", "hosts", "largest_share", "within_share", "host_s",
    "window_share", "device_s", "input_s",
)  # fmt: skip
#: What tells one cell from all others.
_IDENTITY = (
    "job", "machine", "fabric", "setting", "wiring", "batch_size", "micro_batches", "ranks",
    "hosts", "largest_share",
)  # fmt: skip
_FLAGS = ("guessed",)
_COLUMNS = (*_NUMBERS, *_FLAGS, *_TEXTS, "place")
#: What rows are sorted by: what places are before what tells them apart.
_ORDER = (*_TEXTS[:-1], *_FLAGS, *_NUMBERS, _TEXTS[-1])


@dataclass(frozen=True, kw_only=True, eq=False)
class StepCells(Columns):
    """Steps, one a row, with the parts that are predicted for them without any observation.

    Parameters
    ----------
    batch_size : ndarray, shape (rows,)
        Samples of one replica and step.
    micro_batches : ndarray, shape (rows,)
        In which a step takes them.
    ranks, hosts, largest_share : ndarray, shape (rows,)
        Accelerators, hosts, and accelerators on the fullest host.
    within_share : ndarray, shape (rows,)
        Part of the communication that those on the fullest host would take alone: from
        :func:`.gradient_buckets.within_share`, 1 on one host.
    parts : StepParts
        As predicted, columns of shape (rows,).
    host_s : ndarray, shape (rows,)
        What the host needs to issue the step's operators; a step is hardly shorter.
    input_s : ndarray, shape (rows,)
        What one core of the host needs to put the samples of a script's step together; 0 where
        there are none, or nobody said that it is a script.
    window_share : ndarray, shape (rows,)
        Part of the computation that runs while gradients are exchanged.
    device_s : ndarray, shape (rows,)
        What the accelerator alone takes to compute; the step of a captured job, as predicted.
    guessed : ndarray of bool, shape (rows,)
        Whether nothing but a name was known of the job, so that all of it is a guess.
    job : ndarray of str
        Rows of one job share its residual.
    machine : ndarray of str
        What computes: the accelerator, with its host where that is known.
    fabric : ndarray of str
        What carries the communication: link, network, cluster.
    setting : ndarray of str
        What else tells a placement from others: plan, limits, neighbours; empty for plain ones.
    wiring : ndarray of str
        What tells cells apart that are alike in all the above: :func:`wiring_word`.
    place : ndarray of int
        Rows of equal codes are on equal placements; those of others may be, too.

    Raises
    ------
    InvalidInputError
        Columns of unequal length, or a number that is not finite and above zero.
    """

    batch_size: FloatArray
    micro_batches: FloatArray
    ranks: FloatArray
    hosts: FloatArray
    largest_share: FloatArray
    within_share: FloatArray
    parts: StepParts
    host_s: FloatArray
    input_s: FloatArray
    window_share: FloatArray
    device_s: FloatArray
    guessed: npt.NDArray[np.bool_]
    job: StrArray
    machine: StrArray
    fabric: StrArray
    setting: StrArray
    wiring: StrArray
    place: Codes

    def __post_init__(self) -> None:
        rows = len(self.batch_size)
        for name in _COLUMNS:
            if np.shape(getattr(self, name)) != (rows,):
                raise InvalidInputError(f"Column {name} of steps needs {rows} rows.")
        for name in _NUMBERS:
            column = getattr(self, name)
            # Nothing may have to be loaded, or to be sent within a host.
            least = column >= 0 if name in ("input_s", "within_share") else column > 0
            if not np.all(np.isfinite(column) & least):
                raise InvalidInputError(f"Column {name} of steps holds a value not above zero.")
        if not np.all(np.isfinite(self.parts.step_time_s) & (self.parts.compute_s > 0)):
            raise InvalidInputError("A predicted step to be calibrated has no time.")

    def __len__(self) -> int:
        return len(self.batch_size)

    @classmethod
    def of_job(cls, parts: StepParts, **columns: npt.ArrayLike) -> Self:
        """Return the cells of one job; each column may be one value for all rows.

        Parameters
        ----------
        **columns
            Those that are left out are usual: a captured job on placements of their own, in one
            micro-batch, about which no words say anything, where what crosses hosts counts.
        """
        rows = len(parts.compute_s)
        usual = {
            "micro_batches": 1.0, "input_s": 0.0, "window_share": USUAL_WINDOW_SHARE,
            "device_s": parts.compute_s, "guessed": False, **dict.fromkeys(_TEXTS, ""),
            "place": np.arange(rows), "within_share": np.asarray(columns["hosts"]) == 1,
        }  # fmt: skip
        kinds = {**dict.fromkeys(_NUMBERS, np.float64), **dict.fromkeys(_TEXTS, np.str_)}
        made = {
            name: np.array(np.broadcast_to(np.asarray(value, dtype=kinds.get(name)), (rows,)))
            for name, value in {**usual, **columns}.items()
        }
        return cls(parts=parts, **made)

    @classmethod
    def of_steps(cls, steps: Sequence[SingleStep]) -> Self:
        """Return at least one single step of captured jobs, a row each."""
        named = dict(zip(SingleStep._fields, map(list, zip(*steps, strict=True)), strict=True))
        parts = np.array(named.pop("parts"), dtype=np.float64).T
        columns = {name: np.array(values) for name, values in named.items()}
        return cls(
            parts=StepParts(**dict(zip(StepNumbers._fields, parts, strict=True))),
            device_s=np.array([one.device_s for one in steps]),
            guessed=np.zeros(len(steps), dtype=np.bool_),
            place=np.arange(len(steps)),
            **columns,
        )

    @property
    def link(self) -> StrArray:
        """What carries the communication within a host: words of :func:`link_word`."""
        places = zip(self.machine.tolist(), self.fabric.tolist(), strict=True)
        return np.array([link_word(*place) for place in places])

    @property
    def communicates(self) -> npt.NDArray[np.bool_]:
        """Which of them share gradients."""
        return np.asarray((self.ranks > 1) & (self.parts.communication_s > 0))

    def identities(self) -> list[tuple[object, ...]]:
        """Return for each row what tells its cell from all others."""
        return list(zip(*(getattr(self, name).tolist() for name in _IDENTITY), strict=True))

    def on_one_accelerator(self) -> Self:
        """Return the steps of the same jobs without communication, neighbours and limits."""
        one = np.ones(len(self))
        parts = StepParts.of(self.parts.compute_s, input_stall_s=self.parts.input_stall_s)
        plain = np.full(len(self), "")
        return replace(
            self, parts=parts, ranks=one, hosts=one, largest_share=one, within_share=one,
            setting=plain, wiring=plain,
        )  # fmt: skip

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of several, one after the other; none of their placements are equal."""
        return replace(super().join(parts), place=_codes_of(parts))

    def order(self, *last: FloatArray) -> npt.NDArray[np.int64]:
        """Return positions that sort the rows by all that they are, then by ``last``."""
        parts = [getattr(self.parts, one.name) for one in fields(StepParts)]
        keys = [getattr(self, name) for name in _ORDER]
        return np.lexsort(tuple(reversed([*keys, *parts, *last]))).astype(np.int64)


def _codes_of(pieces: Sequence[StepCells]) -> Codes:
    """Return the codes of placements of all pieces; none is in two of them."""
    ends = np.cumsum([0, *(int(piece.place.max(initial=-1)) + 1 for piece in pieces)])
    each = [piece.place + start for piece, start in zip(pieces, ends.tolist(), strict=False)]
    return np.concatenate(each)


def fabric_word(link: int, network: Network | None) -> str:
    """Return a word that placements over equal links, and networks between hosts, share."""
    between = "" if network is None else network.name or f"{network.bandwidth_bytes_per_s:g}"
    return f"{_LINKS[link]}|{between}"


def wiring_word(group: WorldGroup, dealt: str = "") -> str:
    """Return a word for the rates and latencies of links, where several ranks use them.

    Fabrics of one word may differ in them.

    Parameters
    ----------
    dealt : str
        How many ranks each host has, where hosts are not filled one after the other.
    """
    links, word = group.links, dealt
    if links.largest_share > 1:
        word += f" in {links.intra_bytes_per_s:g} {links.intra_latency_s:g}"
    if group.hosts > 1:
        word += f" out {links.inter_bytes_per_s:g} {links.inter_latency_s:g}"
    return word


def link_word(machine: str, fabric: str) -> str:
    """Return a word for what joins the accelerators of one host of a machine."""
    return f"{machine} {fabric.partition('|')[0]}"


_LINKS = {int(one): one.name.lower() for one in LinkClass}


class SingleStep(NamedTuple):
    """One predicted step; a row of :class:`StepCells` on plain numbers."""

    parts: StepNumbers
    batch_size: float
    micro_batches: float
    ranks: float
    hosts: float
    largest_share: float
    within_share: float
    host_s: float
    input_s: float
    window_share: float
    job: str
    machine: str
    fabric: str
    setting: str
    wiring: str

    @property
    def identity(self) -> tuple[object, ...]:
        """What tells its cell from all others, as :meth:`StepCells.identities`."""
        return (
            self.job, self.machine, self.fabric, self.setting, self.wiring, self.batch_size,
            self.micro_batches, self.ranks, self.hosts, self.largest_share,
        )  # fmt: skip

    @property
    def link(self) -> str:
        """What carries the communication within a host."""
        return link_word(self.machine, self.fabric)

    @property
    def device_s(self) -> float:
        """What the accelerator alone takes: the step was captured."""
        return self.parts.compute_s

    @property
    def communicates(self) -> bool:
        """Whether it shares gradients."""
        return self.ranks > 1 and self.parts.communication_s > 0
