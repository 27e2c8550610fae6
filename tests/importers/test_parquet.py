"""Columns of Parquet tables, by the two readers that stand on them."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perfmodel.errors import MissingExtraError, StoreError
from perfmodel.importers.kernels.kernel_tables import table_rows
from perfmodel.importers.public_tables import read_columns, read_rows


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "made_up.parquet"
    pq.write_table(pa.table({"gpu": ["T4", "L4"], "time_s": [0.5, None], "note": ["", "x"]}), path)
    return path


def test_columns_come_in_the_order_that_is_wanted(file: Path) -> None:
    assert list(read_columns(file)) == ["gpu", "time_s", "note"]
    found = read_columns(file, lambda names: [names[1], names[0]])
    assert found == {"time_s": [0.5, None], "gpu": ["T4", "L4"]}
    assert list(found) == ["time_s", "gpu"]


def test_both_readers_see_the_same_rows(file: Path) -> None:
    numbered = read_rows(file, ["gpu", "time_s"])
    assert numbered[1] == (2, {"gpu": "L4", "time_s": None, "note": "x"})
    picked = list(table_rows(file, ["gpu"], ["time_s", "absent"]))
    assert picked[1][1] == {"gpu": "L4", "time_s": None, "absent": None}


@pytest.mark.parametrize(
    "read", [lambda path: read_rows(path, ["gpu"]), lambda path: list(table_rows(path, ["gpu"]))]
)
def test_what_cannot_be_read_is_named(
    file: Path, monkeypatch: pytest.MonkeyPatch, read: object
) -> None:
    assert callable(read)
    other = file.with_name("other.parquet")
    pq.write_table(pa.table({"device": ["T4"]}), other)
    with pytest.raises(StoreError, match=r"other.parquet .*column.* gpu"):
        read(other)
    torn = file.with_name("torn.parquet")
    torn.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(StoreError, match=r"torn.parquet is no Parquet table"):
        read(torn)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"perfmodel\[train\]"):
        read(file)
