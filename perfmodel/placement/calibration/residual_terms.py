"""Terms of the prior of residuals: of which field, in which shape, common to whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Self

import numpy as np

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.calibration.residual_shapes import SHAPES, ShapeColumns, same_words
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Field

#: The last three are ``place``, ``job`` and ``own`` among jobs that are known by a name alone.
_SCOPES = ("all", "place", "job", "own", "guess_place", "guess_job", "guess_own")

#: Fields that belong to the machine; the others belong to the fabric.
OF_MACHINE = frozenset({Field.DEVICE, Field.HOST, Field.FEED, Field.SPREAD, Field.FIXED})


@dataclass(frozen=True, order=True)
class Term:
    """One term of a covariance: field, shape and scope, written ``"device.level.own"``."""

    field: Field
    shape: str
    scope: str

    @classmethod
    @cache
    def parse(cls, name: str) -> Self:
        """Read a term from its name.

        Raises
        ------
        DamagedArtifactError
            No such field, shape or scope.
        """
        field, _, rest = name.partition(".")
        shape, _, scope = rest.partition(".")
        if shape not in SHAPES or scope not in _SCOPES:
            raise DamagedArtifactError(f"The prior of residuals has an unknown term {name!r}.")
        return cls(field=Field[field.upper()], shape=shape, scope=scope)


@dataclass(frozen=True, kw_only=True)
class Scopes:
    """For which of two sets of steps a term is common.

    Parameters
    ----------
    job, guess : ndarray, shape (rows of a, rows of b), or None
        Same job, and both guessed; None where all are.
    place : mapping of bool to ndarray
        Same machine, and same fabric.
    """

    job: FloatArray | None
    guess: FloatArray | None
    place: Mapping[bool, FloatArray]
    guessed: bool

    @classmethod
    def of(cls, a: StepCells, b: StepCells) -> Self:
        """Return for whom terms are common among two sets of steps."""
        job = same_words(a.job, b.job)
        guess = np.outer(a.guessed, b.guessed).astype(np.float64)
        return cls(
            job=None if job.all() else job,
            guess=None if guess.all() else guess,
            place={True: same_words(a.machine, b.machine), False: same_words(a.fabric, b.fabric)},
            guessed=bool(guess.any()),
        )

    def meant(self, scope: str) -> str | None:
        """Return a scope that is the same for these steps, and simpler; None where it is nobody's.

        Examples
        --------
        Among steps of one job ``job`` is ``all``, and ``own`` is ``place``.
        """
        if scope.startswith("guess_"):
            if not self.guessed:
                return None
            scope = scope.removeprefix("guess_") if self.guess is None else scope
        if self.job is None:
            scope = scope.replace("own", "place").replace("job", "all")
        return scope

    def times(self, shape: FloatArray, of_machine: bool, scope: str) -> FloatArray:
        """Return a shape where the scope is common, else 0."""
        guess, _, whose = scope.rpartition("_")
        if whose in ("place", "own"):
            shape = shape * self.place[of_machine]
        if whose in ("job", "own") and self.job is not None:
            shape = shape * self.job
        return shape * self.guess if guess and self.guess is not None else shape


def basis(names: tuple[str, ...], a: StepCells, b: StepCells) -> dict[str, FloatArray]:
    """Return scope times shape of each term, which no standard deviation changes."""
    scopes, (one, other) = Scopes.of(a, b), (ShapeColumns.of(a), ShapeColumns.of(b))
    terms = {name: Term.parse(name) for name in names}
    shapes = {s: SHAPES[s](one, other) for s in {term.shape for term in terms.values()}}
    return {
        name: scopes.times(shapes[term.shape], term.field in OF_MACHINE, term.scope)
        if not term.scope.startswith("guess") or scopes.guessed
        else np.zeros(shapes[term.shape].shape)
        for name, term in terms.items()
    }


def weighted(terms: Mapping[str, FloatArray], sds: Mapping[str, float]) -> FloatArray:
    """Return the covariance of every field from the terms and their standard deviations."""
    first = next(iter(terms.values()))
    total = np.zeros((len(Field), *first.shape))
    for name, term in terms.items():
        total[Term.parse(name).field] += sds[name] ** 2 * term
    return total
