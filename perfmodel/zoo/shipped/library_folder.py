"""The shipped library as a folder that is filled model by model, and checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import orjson

from perfmodel.errors import PerfModelError
from perfmodel.graph.job import Job
from perfmodel.zoo.shipped.building import (
    Capture,
    Capturing,
    rules_like,
    rules_of,
    same_as_captured,
)
from perfmodel.zoo.shipped.graph_files import (
    INDEX,
    GraphFile,
    GraphFolder,
    Rules,
    ShippedModel,
    digest,
)
from perfmodel.zoo.shipped.shipped_graphs import installed_release
from perfmodel.zoo.shipped.variants import model_key, variant_key
from perfmodel.zoo.shipped.wanted import wanted_programs

#: What decides what a capture gives: libraries, and code below the package.
_LIBRARIES = ("timm", "torch", "transformers")
_CODE = ("capture", "graph", "zoo")
#: Rooms of it that decide how it is written alone.
_WRITES = frozenset({"by_rule", "shipped"})


class Built(NamedTuple):
    """What came of one model."""

    label: str
    size_bytes: int
    programs: int
    missing: tuple[str, ...]


class LibraryFolder:
    """A folder of shipped graphs that can be written.

    Parameters
    ----------
    capturing : callable
        Captures a job here and now.
    """

    def __init__(self, folder: Path, capturing: Capturing) -> None:
        self._folder = folder
        self._capturing = capturing

    def build(self, models: Sequence[Job]) -> Iterator[Built]:
        """Capture those models that this code and these libraries did not capture yet.

        Each is written when it is done, so that a build that was stopped goes on.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        for model in models:
            row = GraphFolder(self._folder).index["models"].get(model_key(model))
            if row is None or row["captured_by"] != captured_by():
                yield self._build(model)

    def check(self, model: Job, sizes: Sequence[int]) -> list[str]:
        """Return the programs of a model whose shipped graphs are not what a capture gives."""
        file = GraphFolder(self._folder).file(model_key(model))
        wrong = []
        for program in wanted_programs(model) if file else ():
            rules = shipped_rules(file, variant_key(program)) if file else []
            jobs = [_sized(program, size) for size in sizes]
            wrong += [
                f"{model.label}: {variant_key(job)}, batch {job.batch_size}"
                for job in jobs
                if _holds_for(rules, job) and not same_as_captured(job, rules, self._capturing)
            ]
        return wrong

    def _build(self, model: Job) -> Built:
        variants: dict[str, list[Rules]] = {}
        missing = []
        for program in wanted_programs(model):
            rules = self._rules(program, variants)
            if rules:
                variants[variant_key(program)] = rules
            else:
                missing.append(variant_key(program))
        content = ShippedModel(name=model.label, variants=variants).to_bytes()
        key = model_key(model)
        self._write(f"{key}.graphs", content)
        index = dict(GraphFolder(self._folder).index)
        row = {"name": model.label, "sha256": digest(content), "captured_by": captured_by()}
        index["models"] = {**index["models"], key: row}
        self._write(INDEX, _json({**index, "libraries": _releases()}))
        return Built(model.label, len(content), len(variants), tuple(missing))

    def _rules(self, program: Job, known: Mapping[str, list[Rules]]) -> list[Rules]:
        """Return the rules of a program, if need be from its own captures alone."""
        others = [rules for key, rules in known.items() if key.startswith(program.mode.value)]
        capturing = cache(lambda size, length: self._capturing(_sized(program, size, length)))

        def captured(job: Job) -> Capture:
            return capturing(job.batch_size, job.sequence_length)

        try:
            for rules in reversed(others):
                found = rules_like(program, rules, captured)
                if found is not None:
                    return found
            return rules_of(program, captured, thorough=not others)
        except PerfModelError:
            return []

    def _write(self, name: str, content: bytes) -> None:
        half = self._folder / f".{name}.half"
        half.write_bytes(content)
        half.replace(self._folder / name)


def shipped_rules(file: GraphFile, variant: str) -> list[Rules]:
    """Return all rules of a program that a file has."""
    domains = enumerate(file.domains(variant))
    return [Rules(domain=one, graph=file.graph(variant, number)) for number, one in domains]


def _holds_for(rules: Sequence[Rules], job: Job) -> bool:
    return any(one.domain.point(job.batch_size, job.sequence_length) is not None for one in rules)


def _sized(job: Job, batch_size: int, sequence_length: int | None = None) -> Job:
    return replace(job, batch_size=batch_size, sequence_length=sequence_length)


def _json(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2) + b"\n"


def _releases() -> dict[str, str]:
    return {name: installed_release(name) or "absent" for name in _LIBRARIES}


@cache
def captured_by() -> str:
    """Return a hash of the code and of the libraries that decide what a capture gives."""
    package = Path(__file__).parents[2]
    state = hashlib.blake2b(repr(_releases()).encode(), digest_size=8)
    for name in _CODE:
        for path in sorted((package / name).rglob("*.py")):
            if _WRITES & set(path.parts):
                continue
            state.update(path.relative_to(package).as_posix().encode() + b"\0")
            state.update(path.read_bytes())
    return state.hexdigest()


def capturing_here(job: Job) -> Capture:
    """Capture a job in this process; imports PyTorch."""
    from perfmodel.capture.torch import capture
    from perfmodel.zoo.resolve import build_bundle, program_of, source_of

    bundle = build_bundle(job)
    graph = capture(program_of(bundle, job), source=source_of(bundle, job))
    return Capture(graph, bundle.tokens_per_sample)
