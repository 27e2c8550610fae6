"""Files of shipped graphs: one for each model, and an index with the digest of each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import orjson

from perfmodel.errors import DamagedArtifactError
from perfmodel.graph.by_rule.packing import pack, unpack
from perfmodel.graph.by_rule.ruled_graph import RuledGraph
from perfmodel.zoo.shipped.variants import Domain

FORMAT_VERSION = 1
INDEX = "index.json"
#: Graphs of one model that are packed together: until there are so many tensors and nodes.
_PACKED_TOGETHER = 150_000


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Graphs of one program, and for which batches."""

    domain: Domain
    graph: RuledGraph


@dataclass(frozen=True, kw_only=True)
class ShippedModel:
    """The programs of one model by their keys; each with rules for a few kinds of batches."""

    name: str
    variants: Mapping[str, Sequence[Rules]]

    def to_bytes(self) -> bytes:
        """Write a file; read piece by piece by :class:`GraphFile`."""
        groups: list[list[RuledGraph]] = [[]]
        rows: dict[str, list[dict[str, Any]]] = {}
        for key, found in self.variants.items():
            rows[key] = []
            for rules in found:
                if sum(map(_weight, groups[-1])) > _PACKED_TOGETHER:
                    groups.append([])
                place = {"group": len(groups) - 1, "place": len(groups[-1])}
                rows[key].append({**asdict(rules.domain), **place})
                groups[-1].append(rules.graph)
        packed = [pack(group) for group in groups if group]
        head = {"model": self.name, "variants": rows, "sizes": [len(part) for part in packed]}
        return orjson.dumps(head, option=orjson.OPT_SORT_KEYS) + b"\n" + b"".join(packed)


def _weight(graph: RuledGraph) -> int:
    return len(graph.tensors) + len(graph.calls)


@dataclass(frozen=True)
class GraphFile:
    """A file of the graphs of one model, of which only what is asked for is unpacked."""

    content: bytes = field(repr=False)

    @cached_property
    def head(self) -> Mapping[str, Any]:
        """What it holds.

        Raises
        ------
        DamagedArtifactError
            It is damaged.
        """
        try:
            found: Mapping[str, Any] = orjson.loads(self.content.partition(b"\n")[0])
        except ValueError as error:
            raise DamagedArtifactError(f"Shipped graphs cannot be read: {error}.") from error
        return found

    def domains(self, variant: str) -> list[Domain]:
        """Return for which batches there are rules of a program; none of an unknown one."""
        return [_domain(row) for row in self.head["variants"].get(variant, ())]

    def graph(self, variant: str, number: int) -> RuledGraph:
        """Return the rules of a program that belong to a domain, by its number."""
        row = self.head["variants"][variant][number]
        found: RuledGraph = _unpacked(self._group(row["group"]))[row["place"]]
        return found

    def _group(self, number: int) -> bytes:
        start = self.content.index(b"\n") + 1
        begins = [start, *accumulate(self.head["sizes"], initial=start)][1:]
        return self.content[begins[number] : begins[number + 1]]


# Questions about one model come together: other precisions, other batches.
@lru_cache(maxsize=4)
def _unpacked(group: bytes) -> list[RuledGraph]:
    return unpack(group)


def _domain(row: Mapping[str, Any]) -> Domain:
    sequence, tokens = row["sequence"], row["tokens"]
    return Domain(
        batch=tuple(row["batch"]),
        sequence=tuple(sequence) if sequence else None,
        usual_length=row["usual_length"],
        tokens=tuple(tokens) if tokens else None,
    )


@dataclass(frozen=True)
class GraphFolder:
    """A folder of such files with its index."""

    folder: Path

    @cached_property
    def index(self) -> Mapping[str, Any]:
        """What is there: files by the keys of models, and by what they were captured."""
        path = self.folder / INDEX
        if not path.is_file():
            return {"format": FORMAT_VERSION, "libraries": {}, "models": {}}
        found: Mapping[str, Any] = orjson.loads(path.read_bytes())
        return found

    def file(self, key: str) -> GraphFile | None:
        """Return the file of a model; None where there is none.

        Raises
        ------
        DamagedArtifactError
            It is not what was written.
        """
        row = self.index["models"].get(key)
        if row is None or self.index["format"] != FORMAT_VERSION:
            return None
        path = self.folder / f"{key}.graphs"
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DamagedArtifactError(f"Shipped graphs cannot be read: {error}") from error
        if digest(content) != row["sha256"]:
            raise DamagedArtifactError(f"{path.name} is not what was shipped; install again.")
        return GraphFile(content)


def digest(content: bytes) -> str:
    """Return the hash of a file as the index has it."""
    return hashlib.sha256(content).hexdigest()
