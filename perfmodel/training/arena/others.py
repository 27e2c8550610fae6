"""Run the arenas of parallel plans and of kernels on the tables of a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from perfmodel.importers.base import PublishedPlacement
from perfmodel.training.arena.contract import Progress
from perfmodel.training.arena.data import read_formats
from perfmodel.training.arena.kernels import TARGET, KernelEvaluation, evaluate_kernels
from perfmodel.training.arena.methods import MethodTable
from perfmodel.training.arena.plans import evaluate_plans

#: Formats whose kernels are judged.
KERNEL_FORMATS = ("neusight", "aiconfigurator")
#: Parts that model sizes are dealt into in the fast form; the full one leaves each out alone.
_FAST_FOLDS = 5


def run_others(
    data: Path, folder: Path, *, seed: int = 0, fast: bool = False, progress: Progress | None = None
) -> list[MethodTable]:
    """Judge the predictors of plans and of kernels on held-out tables and keep the answers.

    Parameters
    ----------
    data : Path
        Folder of public tables.
    folder : Path
        Where the answers go.
    seed : int
    fast : bool
    progress : callable or None
        Receives a line for each table.

    Returns
    -------
    list of MethodTable
        Of the formats that the folder holds.
    """
    found = []
    for one in _tables(data, seed=seed, fast=fast):
        one.save(folder)
        found.append(one)
        if progress is not None:
            ours = next(iter(one.predicted_s))
            progress(f"{one.title}: {100 * float(one.errors(ours).mean()):.1f} %")
    return found


def _tables(data: Path, *, seed: int, fast: bool) -> Iterator[MethodTable]:
    for imported in read_formats(data, ("vtrain",)).values():
        yield plan_table(imported.placements, seed=seed, folds=_FAST_FOLDS if fast else None)
    found = read_formats(data, KERNEL_FORMATS)
    kernels = [kernel for imported in found.values() for kernel in imported.kernels]
    if kernels:
        yield from kernel_tables(evaluate_kernels(kernels, seed=seed, fast=fast))


def kernel_tables(found: KernelEvaluation) -> Iterator[MethodTable]:
    """Yield the held-out answers for all kernels together, then those of each group."""
    yield MethodTable(
        name="kernels",
        title="Operators, each device left out in turn",
        target=TARGET,
        measured_s=found.measured_s,
        predicted_s=found.predicted_s,
        groups=found.device,
    )
    yield from found.tables()


def plan_table(
    placements: tuple[PublishedPlacement, ...], *, seed: int, folds: int | None
) -> MethodTable:
    """Return the held-out answers for GPT training on one node.

    Parameters
    ----------
    placements : tuple of PublishedPlacement
    seed, folds
        As in :func:`~perfmodel.training.arena.plans.evaluate_plans`.
    """
    found = evaluate_plans(placements, seed=seed, folds=folds)
    return MethodTable(
        name="vtrain-unseen-size",
        title="GPT training on one node (vTrain), unseen model size",
        target=0.08,
        measured_s=found.measured_s,
        predicted_s=found.predicted_s,
        low_s=found.low_s,
        high_s=found.high_s,
        groups=np.array(found.groups, dtype=np.str_),
    )
