from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from perfmodel.client.protocol.decode import MisfitError, reader


@dataclass(frozen=True, kw_only=True)
class Inner:
    value: float
    names: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Outer:
    inner: Inner
    columns: tuple[tuple[float | None, ...], ...] = ()
    counts: Mapping[str, int] | None = None


def test_json_becomes_dataclasses_and_new_fields_are_passed_over() -> None:
    written = {
        "inner": {"value": 2, "names": ["a"], "new": 1},
        "columns": [[1.5, None, 3], []],
        "counts": {"a": 1},
        "later": {"anything": []},
    }
    assert reader(Outer)(written) == Outer(
        inner=Inner(value=2.0, names=("a",)),
        columns=((1.5, None, 3.0), ()),
        counts={"a": 1},
    )
    assert reader(Outer)({"inner": {"value": 1.0}}) == Outer(inner=Inner(value=1.0))


@pytest.mark.parametrize(
    ("written", "where"),
    [
        ([], ": no object"),
        ({}, "/inner: missing"),
        ({"inner": {"value": "1"}}, "/inner/value: no float"),
        ({"inner": {"value": True}}, "/inner/value: no float"),
        ({"inner": {"value": 1.0, "names": "ab"}}, "/inner/names: no list"),
        ({"inner": {"value": 1.0, "names": ["a", 2]}}, "/inner/names/1: no str"),
        ({"inner": {"value": 1.0}, "columns": [[1.0], ["x"]]}, "/columns/1/0: no float"),
        ({"inner": {"value": 1.0}, "counts": {"a": 1.5}}, "/counts/a: no int"),
        ({"inner": {"value": float("inf")}}, "/inner/value: no float"),
    ],
)
def test_what_does_not_fit_is_pointed_at(written: Any, where: str) -> None:
    with pytest.raises(MisfitError) as misfit:
        reader(Outer)(written)
    assert str(misfit.value).startswith(where)
