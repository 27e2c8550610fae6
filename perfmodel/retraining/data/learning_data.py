"""A snapshot read back: what is learned from, and what is kept back to judge on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfmodel.devices.catalog import Catalog
from perfmodel.engines.task_engine import TaskEngine
from perfmodel.errors import PerfModelError, TrainingError
from perfmodel.features.steps.sketch import step_sketch
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.graph.canonical import from_json
from perfmodel.predictors.folds import Progress
from perfmodel.predictors.predictor import Sample
from perfmodel.retraining.data.copied_profiles import among
from perfmodel.retraining.data.observed_cells import ObservedCell, cells_of, newest_cells
from perfmodel.retraining.data.snapshot import PROFILES, read_observed, read_public
from perfmodel.retraining.data.sources import OBSERVATIONS
from perfmodel.store.profiles import ProfileStore
from perfmodel.store.state.database import Database
from perfmodel.training.learned_steps import is_kept_back
from perfmodel.training.samples.corpus import build_corpus
from perfmodel.training.samples.measured_kernels import operator_steps
from perfmodel.training.samples.profile_corpus import profile_corpus, told_apart
from perfmodel.training.samples.public_data import OPERATOR_FORMATS, STEP_FORMATS
from perfmodel.training.samples.samples import load_samples


@dataclass(frozen=True, kw_only=True)
class LearningData:
    """What a retraining learns from and judges on.

    Parameters
    ----------
    samples : tuple of Sample
        Own records that members learn from.
    corpus, operators : tuple of StepSample
        What the joint predictor learns from; the first is empty where there is nothing but own
        records, which members answer for.
    kept_back : tuple of Sample
        Own records that no version made here learns from.
    kept_back_steps : tuple of StepSample
        Steps of other sources that none does.
    newest : tuple of ObservedCell
        Observed cells that this version does not learn from: those seen first most lately, and
        those that are no bare step of one accelerator.
    dropped : mapping of str to int
        What could not be used, by reason.
    """

    samples: tuple[Sample, ...]
    corpus: tuple[StepSample, ...]
    operators: tuple[StepSample, ...]
    kept_back: tuple[Sample, ...]
    kept_back_steps: tuple[StepSample, ...]
    newest: tuple[ObservedCell, ...]
    dropped: Mapping[str, int]


def read_learning_data(
    folder: Path,
    snapshot: Mapping[str, Any],
    database: Database,
    *,
    own_steps: bool = False,
    cache: Path | None = None,
    engine: TaskEngine | None = None,
    progress: Progress | None = None,
) -> LearningData:
    """Read what a snapshot holds; captures what no kept sketch stands for.

    The same snapshot always gives the same data.

    Parameters
    ----------
    folder : Path
        That of the snapshot.
    database : Database
        Holds the graphs that observed jobs were registered with.
    own_steps : bool
        The joint predictor learns from own records even where there is nothing besides, and
        goes without any: no member is fitted.
    cache, engine, progress
        As in :func:`~perfmodel.training.samples.corpus.build_corpus`.

    Raises
    ------
    TrainingError
        There is no usable record, or a public table has changed since.
    StoreError
        The database cannot be read.
    """
    chosen = among(snapshot["records"])
    store = ProfileStore(folder / PROFILES)
    found = load_samples(store, chosen=chosen, may_be_none=own_steps)
    cells, unread = cells_of(read_observed(folder))
    newest = newest_cells(cells)
    judged = {cell.numbers for cell in newest}
    # Never learned from: steps of several accelerators, of scripts, of shares of an accelerator.
    newest += [cell for cell in cells if not cell.is_bare_step and cell.numbers not in judged]
    steps = _Steps(cells, database, cache=cache, engine=engine, progress=progress)
    public = read_public(snapshot)
    published = [one for name in STEP_FORMATS if name in public for one in public[name].steps]
    corpus = build_corpus(published, cache=cache, engine=engine, progress=progress)
    others = [*corpus.samples]
    others += [sample for cell, sample in steps.found() if cell.numbers not in judged]
    dropped: Counter[str] = Counter()
    for one in (found.dropped, corpus.dropped, unread, steps.dropped):
        dropped.update(one)
    heard = bool(others) or own_steps
    own, alone = told_apart(
        profile_corpus(store, cache=cache, chosen=chosen).samples if heard else ()
    )
    kernels = [one for name in OPERATOR_FORMATS if name in public for one in public[name].kernels]
    return LearningData(
        samples=tuple(one for one in found.samples if not _is_judged(one)),
        corpus=tuple(one for one in (*others, *own) if not is_kept_back(one.model, one.step.mode)),
        operators=(
            *operator_steps(kernels),
            *(one for one in alone if not is_kept_back(one.model, one.step.mode)),
        ),
        kept_back=tuple(one for one in found.samples if _is_judged(one)),
        kept_back_steps=tuple(one for one in others if is_kept_back(one.model, one.step.mode)),
        newest=tuple(newest),
        dropped=dict(dropped),
    )


def _is_judged(sample: Sample) -> bool:
    return is_kept_back(sample.model, sample.workload.mode)


class _Steps:
    """Observed cells on one accelerator as samples."""

    def __init__(self, cells: Sequence[ObservedCell], database: Database, **capturing: Any) -> None:
        self._cells = [cell for cell in cells if cell.is_bare_step]
        self._database = database
        self._capturing = capturing
        self.dropped: Counter[str] = Counter()

    def found(self) -> list[tuple[ObservedCell, StepSample]]:
        """Return what can be learned from, in the order of the cells."""
        found = []
        catalog = Catalog.default()
        # All at once, by several processes; what they keep is then read one by one.
        build_corpus(
            [cell.published() for cell in self._cells if cell.job.graph is None], **self._capturing
        )
        for cell in self._cells:
            try:
                sample = (
                    self._registered(cell, catalog)
                    if cell.job.graph is not None
                    else self._captured(cell)
                )
            except PerfModelError as error:
                self.dropped[f"observed: {type(error).__name__}"] += 1
                continue
            found.append((cell, sample))
        return found

    def _registered(self, cell: ObservedCell, catalog: Catalog) -> StepSample:
        assert cell.job.graph is not None and cell.accelerator is not None
        canonical = self._database.graph(cell.job.graph)
        if canonical is None:
            raise TrainingError(f"The graph {cell.job.graph} is not registered any more.")
        graph = from_json(canonical)
        return StepSample(
            step=Step.of_job(cell.job, step_sketch(graph), catalog.get(cell.accelerator)),
            step_time_s=cell.step_time_s,
            model=cell.job.label,
            family=cell.job.label,
            source=OBSERVATIONS,
        )

    def _captured(self, cell: ObservedCell) -> StepSample:
        built = build_corpus([cell.published()], **self._capturing)
        if not built.samples:
            raise TrainingError(f"{cell.job.label}: {', '.join(built.dropped)}.")
        return built.samples[0]
