"""Run the arena of kernels on the tables of a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from perfmodel.training.arena.contract import Progress
from perfmodel.training.arena.data import KERNEL_FORMATS, read_formats
from perfmodel.training.arena.kernels import TARGET, KernelEvaluation, evaluate_kernels
from perfmodel.training.arena.methods import MethodTable


def run_others(
    data: Path, folder: Path, *, seed: int = 0, fast: bool = False, progress: Progress | None = None
) -> list[MethodTable]:
    """Judge the predictor of kernels on held-out tables and keep the answers.

    Parameters
    ----------
    data : Path
        Folder of public tables.
    folder : Path
        Where the answers go.
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
