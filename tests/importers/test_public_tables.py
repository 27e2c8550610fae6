"""Rows of published tables, in both of the forms that they come in."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perfmodel.errors import MissingExtraError, StoreError
from perfmodel.importers.public_tables import read_rows


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "made_up.parquet"
    pq.write_table(pa.table({"gpu": ["T4", "L4"], "time_s": [0.5, None], "note": ["", "x"]}), path)
    return path


def written_as_csv(file: Path) -> Path:
    table = file.with_suffix(".csv")
    # Some published files begin with a byte order mark.
    table.write_text("\ufeffgpu,time_s,note\nT4,0.5,\nL4,,x\n", encoding="utf-8")
    return table


def test_all_columns_are_read_or_those_that_are_asked_for(file: Path) -> None:
    numbered = read_rows(file, ["gpu", "time_s"])
    assert numbered[1] == (2, {"gpu": "L4", "time_s": None, "note": "x"})
    picked = read_rows(file, ["gpu"], ["time_s", "absent"])
    assert picked[1] == (2, {"gpu": "L4", "time_s": None, "absent": None})


def test_a_table_of_text_has_the_same_columns_and_its_lines(file: Path) -> None:
    table = written_as_csv(file)
    assert read_rows(table, ["gpu"])[1] == (3, {"gpu": "L4", "time_s": None, "note": "x"})
    picked = read_rows(table, ["gpu"], ["time_s", "absent"])
    assert picked[0] == (2, {"gpu": "T4", "time_s": "0.5", "absent": None})


def test_what_cannot_be_read_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path) -> object:
        return read_rows(path, ["gpu"])

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
