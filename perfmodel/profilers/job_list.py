"""Lists of jobs in files: JSON lines, or a TOML grid of models, batch sizes and modes."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import stated_job

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
        A file that cannot be read as one of the two, or a field that a job does not have.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"Cannot read the job list {path}: {error}.") from error
    if path.suffix == ".toml":
        return list(_jobs_of_grid(text, path))
    return list(_jobs_of_lines(text, path))


def _jobs_of_lines(text: str, path: Path) -> Iterator[Job]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            plain = orjson.loads(line)
        except ValueError as error:
            raise InvalidInputError(f"{path}, line {number}: no JSON ({error}).") from error
        yield stated_job(plain)


def _jobs_of_grid(text: str, path: Path) -> Iterator[Job]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(f"{path} is no TOML: {error}.") from error
    for name in document:
        if name not in _TABLES:
            raise InvalidInputError(
                f"{path}: unknown table {name!r}; known: {', '.join(_TABLES)}.", allowed=_TABLES
            )
    configs = document.get("hf_configs", {})
    for table in document.get("workloads", []):
        for plain in _expand({**document.get("defaults", {}), **table}):
            yield stated_job(_with_config(plain, configs, path))


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
