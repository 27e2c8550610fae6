"""What is learned from: public tables in one folder, and the profiles of this project."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfmodel.engines.task_engine import TaskEngine
from perfmodel.errors import StoreError, TrainingError
from perfmodel.features.steps.step import StepSample
from perfmodel.importers.published import Imported
from perfmodel.importers.registry import read_format
from perfmodel.predictors.folds import Progress
from perfmodel.store.profiles import ProfileStore
from perfmodel.training.samples.corpus import build_corpus
from perfmodel.training.samples.emulated_precision import EMULATED, without_emulated
from perfmodel.training.samples.measured_kernels import operator_steps
from perfmodel.training.samples.profile_corpus import profile_corpus, told_apart

#: Formats whose steps on one accelerator are learned from.
STEP_FORMATS = (
    "timm", "lambda", "deep-learning-examples", "cnn-steps", "dlperf", "stable-diffusion",
    "detectron2", "fastertransformer",
)  # fmt: skip
#: Formats whose kernels are learned from beside steps, as steps of one operator.
OPERATOR_FORMATS = ("neusight", "aiconfigurator")
#: Formats whose kernels the predictor of kernels learns from, and is judged on.
KERNEL_FORMATS = (*OPERATOR_FORMATS, "mlx-benchmark", "deepbench")


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """Samples, and what was left out.

    Parameters
    ----------
    dropped : mapping of str to int
        Steps that were imported but could not be used, by reason.
    rejected : mapping of str to int
        Rows that were not understood, by format.
    absent : tuple of str
        Formats of which nothing lay in the folder.
    operators : tuple of StepSample
        Operators measured alone, to learn from beside the samples.
    """

    samples: tuple[StepSample, ...]
    dropped: Mapping[str, int]
    rejected: Mapping[str, int]
    absent: tuple[str, ...] = ()
    operators: tuple[StepSample, ...] = ()


def read_formats(data: Path, formats: Sequence[str]) -> dict[str, Imported]:
    """Read the tables of some formats; a format of which nothing is there is left out.

    Parameters
    ----------
    data : Path
        Folder of many formats, as :meth:`~perfmodel.importers.registry.ImportFormat.usual_path`
        finds them.
    """
    found: dict[str, Imported] = {}
    for name in formats:
        try:
            found[name] = read_format(name, data)
        except StoreError:
            continue
    return found


def load_data(
    data: Path | None,
    *,
    profiles: Path | None = None,
    cache: Path | None = None,
    engine: TaskEngine | None = None,
    progress: Progress | None = None,
) -> TrainingData:
    """Return every step that can be learned from.

    Parameters
    ----------
    profiles : Path or None
        Folder of stored profiles; None: none.
    cache, engine, progress
        As in :func:`~perfmodel.training.samples.corpus.build_corpus`.

    Raises
    ------
    TrainingError
        There is nothing to learn from.
    """
    imported = read_formats(data, STEP_FORMATS) if data is not None else {}
    steps = [step for one in imported.values() for step in one.steps]
    corpus = build_corpus(steps, cache=cache, engine=engine, progress=progress)
    dropped = Counter(corpus.dropped)
    samples = without_emulated(corpus.samples)
    if left_out := len(corpus.samples) - len(samples):
        dropped[EMULATED] += left_out
    own_operators: list[StepSample] = []
    if profiles is not None and ProfileStore(profiles).devices():
        own = profile_corpus(ProfileStore(profiles), cache=cache)
        own_steps, own_operators = told_apart(own.samples)
        samples += own_steps
        dropped.update(own.dropped)
    if not samples:
        raise TrainingError(
            "There is nothing to learn from: name a folder of public tables or of profiles."
        )
    return TrainingData(
        samples=tuple(samples),
        dropped=dict(dropped),
        rejected={name: len(one.rejected) for name, one in imported.items() if one.rejected},
        absent=tuple(name for name in STEP_FORMATS if name not in imported),
        operators=(*(_operators(data) if data is not None else ()), *own_operators),
    )


def _operators(data: Path) -> tuple[StepSample, ...]:
    found = read_formats(data, OPERATOR_FORMATS)
    return operator_steps([kernel for one in found.values() for kernel in one.kernels])
