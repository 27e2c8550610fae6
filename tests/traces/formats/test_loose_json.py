"""What profilers write although it is no JSON."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.traces.formats import loose_json


@pytest.mark.parametrize("word", ["inf", "-inf", "nan", "-nan", "N/A"])
def test_numbers_that_are_none(word: str) -> None:
    text = f'[{{"memory bandwidth (GB/s)": {word}, "bytes": 200, "note": "{word}, 1e5"}}]'
    found = [{"memory bandwidth (GB/s)": None, "bytes": 200, "note": f"{word}, 1e5"}]
    assert loose_json.loads(text.encode()) == found


def test_values_beside_them_stay() -> None:
    found = loose_json.loads(b"[inf, true, null, -1.5e+3, NaN, -Infinity, 7]")
    assert found[:4] == [None, True, None, -1500.0]
    assert math.isnan(found[4])
    assert found[5:] == [-math.inf, 7]


def test_backslashes_of_windows_stand_for_themselves() -> None:
    found = loose_json.loads(rb'{"name": "C:\Users\me\train.py(3): \"f\" \u0041", "x": inf}')
    # \t is an escape whatever was meant.
    assert found == {"name": 'C:\\Users\\me\train.py(3): "f" A', "x": None}


@pytest.mark.parametrize(
    "text", [b'{"a": }', b"[1, 2", b'{"a" 1}', b'["x]', b"[inf inf]", b"[tru]", b"[info]"]
)
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="line 1"):
        loose_json.loads(text)


def test_many_quotes_that_are_never_closed_are_read_once() -> None:
    """Read again from each of them, they would take days."""
    with pytest.raises(ValueError, match="line 1"):
        loose_json.loads(b'["' + b'\\"' * 2**20)


@given(st.binary(max_size=60))
def test_nothing_else_is_raised(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        loose_json.loads(text)


def test_halves_of_characters_are_replaced() -> None:
    text = rb'{"half": "gemm\ud83d", "whole": "\ud83d\ude00", "plain": "C:\\ud83d", "x": NaN}'
    found = loose_json.loads(text)
    assert found["half"] == "gemm\N{REPLACEMENT CHARACTER}"
    assert (found["whole"], found["plain"]) == ("\N{GRINNING FACE}", "C:" + chr(92) + "ud83d")
