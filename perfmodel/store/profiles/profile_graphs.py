"""The graphs of a device's measurements: canonical JSON by content hash, in Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from perfmodel.errors import StoreError
from perfmodel.store.profiles.profile_tables import write_table

GRAPH_SCHEMA = pa.schema([("graph_hash", pa.string()), ("graph", pa.string())])

#: Graphs of one row group: what has to be decompressed to read one of them.
GRAPHS_PER_GROUP = 16

_DAMAGE = (OSError, ValueError, KeyError, pa.ArrowException)


def write_graphs(path: Path, graphs: Mapping[str, str]) -> None:
    """Write graphs, similar ones beside each other in the order they are given."""
    columns = {"graph_hash": list(graphs), "graph": list(graphs.values())}
    write_table(path, pa.table(columns, schema=GRAPH_SCHEMA), row_group_size=GRAPHS_PER_GROUP)


def find_graph(
    path: Path, graph_hash: str, *, on_damaged: Callable[[StoreError], None]
) -> str | None:
    """Return a graph of a file, or None where the file does not hold it or is damaged."""
    try:
        version = _version(path)
        group = _index(path, version).get(graph_hash)
        return None if group is None else _group(path, group, version)[graph_hash]
    except _DAMAGE as error:
        on_damaged(_damaged(path, error))
        return None


def all_graphs(
    path: Path, *, on_damaged: Callable[[StoreError], None]
) -> Iterator[tuple[str, str]]:
    """Yield every graph of a file with its hash, as far as the file can be read."""
    try:
        version = _version(path)
        for group in sorted(set(_index(path, version).values())):
            yield from _group(path, group, version).items()
    except _DAMAGE as error:
        on_damaged(_damaged(path, error))


def known_graphs(path: Path) -> set[str]:
    """Return the hashes of a file's graphs; none for a damaged file."""
    try:
        return set(_index(path, _version(path)))
    except _DAMAGE:
        return set()


def _version(path: Path) -> tuple[int, ...]:
    """Return what tells a file from the one that was there before: clocks of file systems tick."""
    facts = path.stat()
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


@lru_cache(maxsize=64)
def _index(path: Path, _version: tuple[int, ...]) -> dict[str, int]:
    """Return for each graph of a file the row group that holds it."""
    index: dict[str, int] = {}
    file = pq.ParquetFile(path, page_checksum_verification=True)
    for group in range(file.num_row_groups):
        hashes = file.read_row_group(group, columns=["graph_hash"]).column(0).to_pylist()
        index.update(dict.fromkeys(hashes, group))
    return index


@lru_cache(maxsize=4)
def _group(path: Path, group: int, _version: tuple[int, ...]) -> dict[str, str]:
    table = pq.ParquetFile(path, page_checksum_verification=True).read_row_group(group)
    columns = [table.column(name).to_pylist() for name in GRAPH_SCHEMA.names]
    return dict(zip(*columns, strict=True))


def _damaged(path: Path, error: Exception) -> StoreError:
    return StoreError(
        f"The profile file {path} cannot be read ({error}). Restore it from version control, or "
        "delete all three files of its number and measure again."
    )
