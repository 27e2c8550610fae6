"""Held-out answers of several methods to one question: kernels, parallel plans.

Other judgements than that of whole steps return one; it is kept beside the answers of the steps, so
that the report holds all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from accuracy_report.markdown import percent, table

from perfmodel.errors import MissingExtraError
from perfmodel.features.arrays import FloatArray
from perfmodel.store.durable import whole_file, write_whole

FOLDER = "methods"
_PREDICTED = "predicted_"


@dataclass(frozen=True, kw_only=True)
class MethodTable:
    """Answers of some methods, ours first.

    Parameters
    ----------
    name : str
        Short word, for files.
    title : str
        What was asked, for people.
    measured_s : ndarray, shape (rows,)
    predicted_s : mapping of str to ndarray, shape (rows,)
        By method; the first is judged, the others stand beside it.
    groups : ndarray of str, shape (rows,)
        What each row was left out with.
    target : float or None
        MAPE to reach.
    low_s, high_s : ndarray or None
        Intervals of the first method; NaN where it states none.
    facts : mapping of str to str
        Remarks for the report.
    """

    name: str
    title: str
    measured_s: FloatArray
    predicted_s: Mapping[str, FloatArray]
    groups: npt.NDArray[np.str_]
    target: float | None = None
    low_s: FloatArray | None = None
    high_s: FloatArray | None = None
    facts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def coverage(self) -> float | None:
        """Share of measured times inside the interval, where one is stated; None without any."""
        if self.low_s is None or self.high_s is None:
            return None
        stated = np.isfinite(self.low_s) & np.isfinite(self.high_s)
        if not stated.any():
            return None
        inside = (self.low_s <= self.measured_s) & (self.measured_s <= self.high_s)
        return float(inside[stated].mean())

    def errors(self, method: str) -> FloatArray:
        """Return ``|T^ / T - 1|`` of each row; NaN where a method has no answer."""
        return np.abs(self.predicted_s[method] / self.measured_s - 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Return scores as JSON values."""
        return {
            "title": self.title,
            "rows": len(self.measured_s),
            "target": self.target,
            "coverage": self.coverage,
            "methods": {
                name: {
                    "mape": float(np.nanmean(error)),
                    "median": float(np.nanmedian(error)),
                    "p90": float(np.nanquantile(error, 0.9)),
                }
                for name in self.predicted_s
                if np.isfinite(error := self.errors(name)).any()
            },
        }

    def save(self, folder: Path) -> None:
        """Write rows and description into a folder."""
        pa, parquet = _pyarrow()
        columns: dict[str, Any] = {"measured_s": self.measured_s, "groups": self.groups}
        columns |= {_PREDICTED + name: times for name, times in self.predicted_s.items()}
        if self.low_s is not None and self.high_s is not None:
            columns |= {"low_s": self.low_s, "high_s": self.high_s}
        with whole_file(folder / FOLDER / f"{self.name}.parquet") as temporary:
            parquet.write_table(pa.table(columns), temporary, compression="zstd")
        plain = {"title": self.title, "target": self.target, "facts": dict(self.facts)}
        write_whole(folder / FOLDER / f"{self.name}.json", orjson.dumps(plain))


def load_methods(folder: Path) -> list[MethodTable]:
    """Return every table that lies in a folder, by name; empty where there is none."""
    return [_load(path) for path in sorted((Path(folder) / FOLDER).glob("*.parquet"))]


def _load(path: Path) -> MethodTable:
    _, parquet = _pyarrow()
    stored = parquet.read_table(path)
    columns = {
        name: stored.column(name).to_numpy(zero_copy_only=False) for name in stored.column_names
    }
    plain = orjson.loads(path.with_suffix(".json").read_bytes())
    return MethodTable(
        name=path.stem,
        title=plain["title"],
        target=plain["target"],
        facts=plain["facts"],
        measured_s=columns["measured_s"],
        predicted_s={
            name.removeprefix(_PREDICTED): times
            for name, times in columns.items()
            if name.startswith(_PREDICTED)
        },
        groups=columns["groups"].astype(np.str_),
        low_s=columns.get("low_s"),
        high_s=columns.get("high_s"),
    )


def method_lines(tables: Sequence[MethodTable]) -> Iterator[str]:
    """Yield the part of the report on some tables."""
    for one in tables:
        yield from (f"## {one.title}", "")
        for note, text in one.facts.items():
            yield from (f"{note}: {text}.", "")
        rows = []
        for number, method in enumerate(one.predicted_s):
            error = one.errors(method)
            error = error[np.isfinite(error)]
            if not len(error):
                continue
            mape = percent(float(error.mean()))
            rows.append(
                [
                    f"**{method}**" if number == 0 else method,
                    str(len(error)),
                    f"**{mape}**" if number == 0 else mape,
                    percent(one.target) if number == 0 else "",
                    percent(float(np.median(error))),
                    percent(float(np.quantile(error, 0.9))),
                    percent(one.coverage) if number == 0 else "",
                ]
            )
        header = ["method", "rows", "MAPE", "to reach", "median", "90 % below", "inside"]
        yield from table(header, rows)
        yield from _by_group(one)


def _by_group(one: MethodTable) -> Iterator[str]:
    errors = {method: one.errors(method) for method in one.predicted_s}
    rows = []
    for group in sorted(set(one.groups.tolist())):
        chosen = one.groups == group
        cells = [_mean(error[chosen]) for error in errors.values()]
        rows.append([group, str(int(chosen.sum())), *cells])
    yield from table(["left out", "rows", *errors], rows)


def _mean(error: FloatArray) -> str:
    known = error[np.isfinite(error)]
    return percent(float(known.mean()) if len(known) else None)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("Keeping held-out answers", extra="train") from error
    return pyarrow, pyarrow.parquet
