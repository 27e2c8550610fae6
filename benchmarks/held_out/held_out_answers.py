"""Answers of one fold as a table of columns: what scores and reports read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.errors import MissingExtraError, StoreError
from perfmodel.features.arrays import BoolArray, Columns, FloatArray, IntArray, StrArray
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.prediction import Prediction
from perfmodel.store.durable import whole_file
from perfmodel.types import Framework

#: Column of a baseline in a file: this and its name.
_BASELINE = "baseline_"


@dataclass(frozen=True, kw_only=True)
class AnswerTable(Columns):
    """Held-out answers, one row each, beside what was measured.

    Parameters
    ----------
    split, fold : ndarray of str
        Which fit answered.
    probes : ndarray of int64
        Records of the left-out device that the answer has taken into account.
    choice : ndarray of str
        How those were chosen: ``"planned"``, ``"random-0"``, ...; empty without probes.
    source, model, family, device, kind, mode, precision, memory_format, compiler : ndarray
    torch, framework : ndarray
        Facts of the sample, words.
    batch_size : ndarray of int64
        Samples per step.
    measured_s, predicted_s, low_s, high_s, coverage : ndarray
        Step times, the interval and what it promises.
    baselines : mapping of str to ndarray
        Answers of each baseline in seconds; NaN where it has none.
    """

    split: StrArray
    fold: StrArray
    probes: IntArray
    choice: StrArray
    source: StrArray
    model: StrArray
    family: StrArray
    device: StrArray
    kind: StrArray
    mode: StrArray
    precision: StrArray
    memory_format: StrArray
    compiler: StrArray
    torch: StrArray
    framework: StrArray
    batch_size: IntArray
    measured_s: FloatArray
    predicted_s: FloatArray
    low_s: FloatArray
    high_s: FloatArray
    coverage: FloatArray
    out_of_distribution: BoolArray
    basis: StrArray
    baselines: Mapping[str, FloatArray]

    def __len__(self) -> int:
        return len(self.measured_s)

    @property
    def inside(self) -> BoolArray:
        """Whether the measured time lies in the interval."""
        return (self.low_s <= self.measured_s) & (self.measured_s <= self.high_s)

    def save(self, path: Path) -> None:
        """Write a Parquet file, whole or not at all."""
        pa, parquet = _pyarrow()
        columns = {name: getattr(self, name) for name in _PLAIN}
        columns |= {_BASELINE + name: times for name, times in self.baselines.items()}
        with whole_file(path) as temporary:
            parquet.write_table(pa.table(columns), temporary, compression="zstd")

    @classmethod
    def load(cls, path: Path) -> AnswerTable:
        """Read what :meth:`save` wrote.

        Raises
        ------
        StoreError
            A file that cannot be read.
        """
        pa, parquet = _pyarrow()
        try:
            table = parquet.read_table(path)
            values = {name: _column(table, name) for name in _PLAIN}
        except (OSError, KeyError, pa.ArrowInvalid) as error:
            raise StoreError(
                f"{path} holds no answers: {error}. Run the benchmark again."
            ) from error
        names = [name for name in table.column_names if name.startswith(_BASELINE)]
        baselines = {name.removeprefix(_BASELINE): _column(table, name) for name in names}
        return cls(**values, baselines=baselines)


_PLAIN = tuple(f.name for f in fields(AnswerTable) if f.name != "baselines")


def concatenate(tables: Sequence[AnswerTable]) -> AnswerTable:
    """Return the rows of all tables; a baseline that one of them lacks is NaN there.

    Parameters
    ----------
    tables : sequence of AnswerTable
        At least one.
    """
    values = {name: np.concatenate([getattr(t, name) for t in tables]) for name in _PLAIN}
    names = dict.fromkeys(name for table in tables for name in table.baselines)
    baselines = {
        name: np.concatenate([t.baselines.get(name, np.full(len(t), np.nan)) for t in tables])
        for name in names
    }
    return AnswerTable(**values, baselines=baselines)


def answer_table(
    samples: Sequence[StepSample],
    answers: Sequence[Prediction],
    *,
    split: str,
    fold: str,
    baselines: Mapping[str, FloatArray],
    probes: int = 0,
    choice: str = "",
) -> AnswerTable:
    """Return the table of the answers to some samples."""
    steps = [sample.step for sample in samples]

    def words(values: Sequence[str]) -> StrArray:
        return np.array(values, dtype=np.str_)

    def numbers(name: str) -> FloatArray:
        return np.array([float(getattr(answer, name)) for answer in answers])

    rows = len(steps)
    return AnswerTable(
        split=words([split] * rows),
        fold=words([fold] * rows),
        probes=np.full(rows, probes, dtype=np.int64),
        choice=words([choice] * rows),
        source=words([sample.source for sample in samples]),
        model=words([sample.model for sample in samples]),
        family=words([sample.family for sample in samples]),
        device=words([step.accelerator.name for step in steps]),
        kind=words([step.accelerator.kind for step in steps]),
        mode=words([step.mode.value for step in steps]),
        precision=words([step.precision.value for step in steps]),
        memory_format=words([step.memory_format.value for step in steps]),
        compiler=words([step.compiler.value for step in steps]),
        torch=words([step.software.get("torch", "") for step in steps]),
        framework=words([Framework.of(step.software).value for step in steps]),
        batch_size=np.array([step.batch_size for step in steps], dtype=np.int64),
        measured_s=np.array([sample.step_time_s for sample in samples]),
        predicted_s=numbers("time_s"),
        low_s=numbers("low_s"),
        high_s=numbers("high_s"),
        coverage=numbers("coverage"),
        out_of_distribution=np.array([bool(a.out_of_distribution) for a in answers], dtype=bool),
        basis=words([str(answer.basis) for answer in answers]),
        baselines=dict(baselines),
    )


def _column(table: Any, name: str) -> Any:
    values = table.column(name).to_numpy(zero_copy_only=False)
    return values.astype(np.str_) if values.dtype == object else values


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("Keeping held-out answers", extra="train") from error
    return pyarrow, pyarrow.parquet
