"""Ask the service from within a scheduler: standard library only, one deadline, no surprises."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from perfmodel.client import Client, NoAnswerError
from perfmodel.client.answers import Matrix
from perfmodel.client.errors import NotFoundError
from perfmodel.client.forms import SeenInMatrix
from perfmodel.errors import InvalidInputError
from perfmodel.json_values import shown
from perfmodel.types import Basis

__all__ = [
    "Answers",
    "Cell",
    "JobForm",
    "NoAnswerError",
    "PlacementForm",
    "SeenInMatrix",
    "Service",
    "read_matrix",
    "written_out",
]

LOG = logging.getLogger(__name__)

#: A job as JSON, and a placement in either form.
JobForm = Mapping[str, Any]
PlacementForm = str | Mapping[str, Any]
Rows = Sequence[Sequence[Any]]

_NEEDED = ("samples_per_second", "low", "high", "step_time_s", "peak_bytes", "fits", "basis")
#: Jobs that are named in the log where many have no answer for one reason.
_NAMED = 3
#: Warnings that are remembered; those with a number in them are ever new.
_MOST_SAID = 1000
#: What a service may leave out.
_PARTS = ("compute_time_s", "sync_time_s")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """What is known of one job on one placement; None stands for what is not.

    Rates are those of all accelerators. What computes and what synchronises may overlap within the
    step. ``peak_bytes`` is the memory of one accelerator, ``fits`` whether that is there.
    ``low`` and ``high`` are the ends of the interval of ``samples_per_second``; ``basis`` says what
    it rests on, in the words of :class:`~perfmodel.types.Basis`.
    """

    samples_per_second: float
    step_time_s: float
    low: float | None = None
    high: float | None = None
    basis: str | None = None
    compute_time_s: float | None = None
    sync_time_s: float | None = None
    peak_bytes: float | None = None
    fits: bool | None = None


def written_out(job: JobForm, **replaced: Any) -> dict[str, Any]:
    """Return the fields of a job, some of them replaced.

    Raises
    ------
    InvalidInputError
        A reference: what it stands for is known to the service alone.

    Examples
    --------
    >>> written_out({"model": "timm/resnet50", "batch_size": 8}, batch_size=64)
    {'model': 'timm/resnet50', 'batch_size': 64}
    """
    if not isinstance(job, Mapping) or "ref" in job:
        raise InvalidInputError(
            "A job whose batch size is replaced, or that stands beside another, must be written "
            f"out, as it was when it was registered; got {shown(job)}."
        )
    return {**job, **replaced}


class Answers(Protocol):
    """Whoever answers questions: the service, or an estimator in this process."""

    def cells(
        self,
        jobs: Sequence[JobForm],
        placements: Sequence[PlacementForm],
        observations: Sequence[SeenInMatrix] = (),
    ) -> list[list[Cell | None]]:
        """Return a cell for each job and placement; None where there is no answer.

        An answer that rests on nothing but what jobs in general take (``default``) is none: it says
        nothing of the job, and nobody knows within two orders of magnitude how long that takes.

        Parameters
        ----------
        observations : sequence of mapping
            Measured steps of the jobs, each with the position of its ``job``.
        """
        ...

    def memory_bytes(self, accelerator: str) -> float | None:
        """Return the memory of an accelerator by name or alias; None where it is not known."""
        ...


class Service:
    """A running service, asked over HTTP, such as ``"http://127.0.0.1:8000"``.

    A key is given as ``key``, or as the password of the URL.
    A whole question takes ``timeout_s`` at most, from connecting to the last byte of the answer.
    After one without an answer none is asked for ``rest_s``; the scheduler then waits for nothing.

    Raises
    ------
    InvalidInputError
        A URL that is none.
    """

    def __init__(
        self, url: str, *, timeout_s: float = 5.0, key: str | None = None, rest_s: float = 10.0
    ) -> None:
        # A scheduler asks again by itself; what is waited for between is lost to it.
        self._client = Client(url, api_key=key, timeout_s=timeout_s, retries=0, rest_s=rest_s)
        self._memory_bytes: dict[str, float | None] = {}
        self._said: set[str] = set()

    def cells(
        self,
        jobs: Sequence[JobForm],
        placements: Sequence[PlacementForm],
        observations: Sequence[SeenInMatrix] = (),
    ) -> list[list[Cell | None]]:
        """Return cells as :meth:`Answers.cells`, from one call and one model version.

        Raises
        ------
        NoAnswerError
            No usable answer in time.
        """
        answer = self._client.matrix(jobs, placements, observations=observations or None)
        log_problems((one.job, one.detail or one.title) for one in answer.errors)
        log_warnings(answer.warnings, self._said)
        try:
            return read_matrix(answer, len(jobs), len(placements))
        except ValueError as error:
            raise NoAnswerError(f"The answer of /v1/matrix cannot be used: {error}.") from error

    def memory_bytes(self, accelerator: str) -> float | None:
        """Return the memory of an accelerator in any spelling; None where it is not known.

        Raises
        ------
        NoAnswerError
            No usable answer in time.
        """
        if accelerator not in self._memory_bytes:
            try:
                self._memory_bytes[accelerator] = self._client.accelerator(accelerator).memory_bytes
            except NotFoundError:
                self._memory_bytes[accelerator] = None
        return self._memory_bytes[accelerator]


def log_problems(problems: Iterable[tuple[int | None, str]]) -> None:
    """Write into the log why jobs have cells without an answer, each reason once.

    Parameters
    ----------
    problems : iterable of (int or None, str)
        Position of the job, None for all of them, and the reason.
    """
    jobs: dict[str, dict[int | None, None]] = {}
    for job, detail in problems:
        jobs.setdefault(detail, {})[job] = None
    for detail, of in jobs.items():
        numbers = [str(job) for job in of if job is not None]
        more = f" and {len(numbers) - _NAMED} more" if len(numbers) > _NAMED else ""
        some = "some placements" if None in of else f"job {', '.join(numbers[:_NAMED])}{more}"
        LOG.warning("%s of this question: not all is answered: %s", some, detail)


def log_warnings(warnings: Iterable[str], said: set[str]) -> None:
    """Write into the log what answers rest on and leave out: tables have no place for it.

    Parameters
    ----------
    said : set of str
        What was written before, which is not again; what is written now is added.
    """
    for text in warnings:
        if text not in said:
            if len(said) >= _MOST_SAID:
                said.clear()
            said.add(text)
            LOG.info("%s", text)


def read_matrix(answer: Matrix, jobs: int, placements: int) -> list[list[Cell | None]]:
    """Read the columns of a matrix that came over the wire, trusting no number.

    Cells without an answer are None, those whose answer rests on nothing among them.

    Raises
    ------
    ValueError
        Not a matrix of that shape, or numbers that cannot be.
    """
    names = (*_NEEDED, *(name for name in _PARTS if getattr(answer, name)))
    columns = [_rows(getattr(answer, name), name, jobs, placements) for name in names]
    return [
        [
            _cell(dict(zip(names, values, strict=True)))
            for values in zip(*(column[row] for column in columns), strict=True)
        ]
        for row in range(jobs)
    ]


def _rows(column: Rows, name: str, jobs: int, placements: int) -> Rows:
    if len(column) != jobs or not all(len(row) == placements for row in column):
        raise ValueError(f"{name} is no table of {jobs} x {placements}")
    return column


def _cell(values: dict[str, Any]) -> Cell | None:
    rate, step_time_s = values["samples_per_second"], values["step_time_s"]
    if rate is None or step_time_s is None or values["basis"] == Basis.DEFAULT:
        return None
    if not (_is_above_zero(rate) and _is_above_zero(step_time_s)):
        raise ValueError(f"{rate!r} samples/s in steps of {step_time_s!r} s cannot be")
    low, high = values["low"], values["high"]
    if not (_is_above_zero(low) and _is_above_zero(high) and low <= rate <= high):
        raise ValueError(f"{rate!r} samples/s cannot lie within {low!r} to {high!r}")
    parts = {name: values.get(name) for name in _PARTS}
    if not all(part is None or 0 <= part < math.inf for part in parts.values()):
        raise ValueError(f"a step of {step_time_s!r} s cannot have the parts {parts}")
    peak_bytes = values["peak_bytes"]
    return Cell(
        samples_per_second=rate,
        step_time_s=step_time_s,
        low=low,
        high=high,
        basis=values["basis"],
        **parts,
        peak_bytes=peak_bytes if _is_above_zero(peak_bytes) else None,
        fits=values["fits"],
    )


def _is_above_zero(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0
