"""Lists of jobs in files: JSON lines, or a TOML grid of models, batch sizes and modes."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import stated_job
from perfmodel.json_values import as_object
from perfmodel.profilers.onnx_file import ONLY_PROFILED, OnnxFile, file_job

_TABLES = ("defaults", "workloads", "hf_configs")


def read_jobs(path: Path) -> list[Job]:
    """Read a list of jobs from a file.

    ``*.jsonl`` holds one job a line. ``*.toml`` holds ``[[workloads]]`` tables: fields of a job,
    where a list stands for each of its values in turn (``mode``, ``batch_size``, ``precision``,
    ``optimizer``, ``compiler``, ``memory_format``, ``sequence_length``); ``hf_config`` may name
    a table under ``[hf_configs]``; ``[defaults]`` fills what a workload leaves out.

    Raises
    ------
    InvalidInputError
        A file that cannot be read as one of the two, a field that a job does not have, or an ONNX
        file in the place of a model.
    """
    jobs = []
    for place, plain in _entries(path):
        if file := _file_name(plain):
            raise InvalidInputError(f"{place} names {file}. {ONLY_PROFILED}")
        with _said_of(place):
            jobs.append(stated_job(plain))
    return jobs


def read_jobs_and_files(
    path: Path, dimensions: Mapping[str, int]
) -> list[tuple[Job, OnnxFile | None]]:
    """Read a list as :func:`read_jobs` does, in which a ``model`` may be an ``.onnx`` file.

    Its path is relative to the folder of the list.

    Parameters
    ----------
    dimensions : mapping of str to int
        Extents for files whose entry states no ``dimensions`` of its own.

    Raises
    ------
    PerfModelError
        As :func:`read_jobs` and :func:`~perfmodel.profilers.onnx_file.file_job`.
    """
    found = []
    for place, plain in _entries(path):
        with _said_of(place):
            found.append(_job_and_file(plain, path.parent, dimensions))
    return found


@contextmanager
def _said_of(place: str) -> Iterator[None]:
    """Say of what is wrong with an entry where it stands."""
    try:
        yield
    except InvalidInputError as error:
        raise InvalidInputError(f"{place}: {error.message}", allowed=error.allowed) from error


def _job_and_file(
    plain: Mapping[str, Any], folder: Path, dimensions: Mapping[str, int]
) -> tuple[Job, OnnxFile | None]:
    name = _file_name(plain)
    if not name:
        return stated_job(plain), None
    stated = {key: plain[key] for key in plain if key not in ("model", "dimensions")}
    own = as_object(plain.get("dimensions", dimensions), "/dimensions", what="dimensions")
    file = OnnxFile(
        path=(folder / name).absolute(), dimensions=own, batch_size=plain.get("batch_size")
    )
    return file_job(file, stated), file


def _file_name(plain: object) -> str:
    """Return the ONNX file that an entry names in the place of a model; empty without one."""
    name = plain.get("model") if isinstance(plain, Mapping) else None
    return name if isinstance(name, str) and name.endswith(".onnx") else ""


def _entries(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each entry with the place where it stands."""
    try:
        # Editors of Windows write a byte order mark.
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInputError(f"Cannot read the job list {path}: {reason}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"The job list {path} is no text in UTF-8.") from error
    yield from (_of_grid if path.suffix == ".toml" else _of_lines)(text, path)


def _of_lines(text: str, path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            plain = orjson.loads(line)
        except ValueError as error:
            raise InvalidInputError(f"{place}: no JSON ({error}).") from error
        yield place, _table(plain, place, "a job")


def _of_grid(text: str, path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(f"{path} is no TOML: {error}.") from error
    for name in document:
        if name not in _TABLES:
            raise InvalidInputError(
                f"{path}: unknown table {name!r}; known: {', '.join(_TABLES)}.", allowed=_TABLES
            )
    defaults = _table(document.get("defaults", {}), str(path), "defaults")
    configs = _table(document.get("hf_configs", {}), str(path), "hf_configs")
    workloads = document.get("workloads", [])
    if not isinstance(workloads, list):
        raise InvalidInputError(f"{path}: workloads are written under [[workloads]], one each.")
    for number, workload in enumerate(workloads, start=1):
        place = f"{path}, workload {number}"
        for plain in _expand({**defaults, **_table(workload, place, "a workload")}):
            yield place, _with_config(plain, configs, path)


def _table(value: Any, place: str, what: str) -> Mapping[str, Any]:
    """Return a value that has fields."""
    with _said_of(place):
        return as_object(value, "", what=what)


def _expand(table: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    axes = {key: value for key, value in table.items() if isinstance(value, list)}
    for values in itertools.product(*axes.values()):
        yield {**table, **dict(zip(axes, values, strict=True))}


def _with_config(
    plain: Mapping[str, Any], configs: Mapping[str, Any], path: Path
) -> dict[str, Any]:
    name = plain.get("hf_config")
    if not isinstance(name, str):
        return dict(plain)
    if name not in configs:
        raise InvalidInputError(
            f"{path}: no table hf_configs.{name}; there are {', '.join(configs) or 'none'}.",
            allowed=tuple(configs),
        )
    return {**plain, "hf_config": configs[name]}
