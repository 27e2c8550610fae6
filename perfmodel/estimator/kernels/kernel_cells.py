"""Every pair of some kernels and some accelerators, a bad one for itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator.kernels.collective_answers import collective_answer
from perfmodel.estimator.kernels.kernel_answers import (
    KernelAnswer,
    KernelError,
    KernelTable,
    Pair,
    kernel_answers,
)
from perfmodel.estimator.kernels.kernel_question import KernelQuestion, KernelsQuestion
from perfmodel.predictors.kernels.kernel_times import KernelModel


def answer_kernels(asked: KernelsQuestion, model: KernelModel, catalog: Catalog) -> KernelTable:
    """Answer every pair; what is wrong with a kernel or an accelerator costs its own pairs.

    Parameters
    ----------
    catalog : Catalog
        Where accelerators are looked up, by any of their names.
    """
    specs = [_looked_up(catalog, name, i) for i, name in enumerate(asked.accelerators)]
    errors = [
        *(KernelError(kernel=i, error=error) for i, error in _errors(asked.kernels)),
        *(KernelError(accelerator=j, error=error) for j, error in _errors(specs)),
    ]
    alone: list[Pair] = []
    answers: dict[tuple[int, int], KernelAnswer] = {}
    places: list[tuple[int, int]] = []
    for i, j, kernel, spec in _sound_pairs(asked, specs):
        if not kernel.is_collective:
            alone.append((i, kernel, spec))
            places.append((i, j))
            continue
        try:
            answers[i, j] = collective_answer(i, kernel, spec, f"/kernels/{i}")
        except PerfModelError as error:
            errors.append(KernelError(kernel=i, accelerator=j, error=error))
    answers.update(zip(places, kernel_answers(model, alone), strict=True))
    return KernelTable(
        kernels=len(asked.kernels),
        accelerators=tuple(None if isinstance(s, PerfModelError) else s.name for s in specs),
        answers=tuple(answers[place] for place in sorted(answers)),
        errors=tuple(errors),
        model_version=model.version,
        warnings=tuple(dict.fromkeys(w for one in answers.values() for w in one.warnings)),
    )


def _sound_pairs(
    asked: KernelsQuestion, specs: list[AcceleratorSpec | PerfModelError]
) -> Iterator[tuple[int, int, KernelQuestion, AcceleratorSpec]]:
    for i, kernel in enumerate(asked.kernels):
        for j, spec in enumerate(specs):
            if not isinstance(kernel, PerfModelError) and not isinstance(spec, PerfModelError):
                yield i, j, kernel, spec


def _looked_up(catalog: Catalog, name: str, position: int) -> AcceleratorSpec | PerfModelError:
    try:
        return catalog.get(name)
    except InvalidInputError as error:
        error.pointer = f"/accelerators/{position}"
        return error


def _errors(found: Sequence[object]) -> Iterator[tuple[int, PerfModelError]]:
    return ((i, one) for i, one in enumerate(found) if isinstance(one, PerfModelError))
