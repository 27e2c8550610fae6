"""Read columns of a Parquet table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from perfmodel.errors import MissingExtraError, StoreError


def read_columns(
    file: Path, wanted: Callable[[list[str]], Sequence[str]] = tuple
) -> dict[str, list[Any]]:
    """Return columns of a Parquet table by their names, in the order they are wanted.

    Parameters
    ----------
    wanted : callable
        Is given the names of the columns that are there and returns those to be read; it may
        refuse the table. All are read without it.

    Raises
    ------
    MissingExtraError
        The library that reads Parquet is not installed.
    StoreError
        The file cannot be read as a Parquet table.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("Reading Parquet tables", extra="train") from error
    try:
        with pq.ParquetFile(file) as opened:
            names = list(wanted(opened.schema_arrow.names))
            table = opened.read(columns=names)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise StoreError(f"{file} is no Parquet table: {error}.") from error
    return {name: table[name].to_pylist() for name in names}
