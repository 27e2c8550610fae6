"""Nested arrays of a document, whatever the pieces it comes in."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.json_sections import json_sections
from perfmodel.traces.limits import DEFAULT_LIMITS

DOCUMENT = {
    "a": [{"x": [1, 2]}, {"y": '}]\\"', "a": [9]}, 3],
    "b": {"c": [[1], [2]], "d": [], "a": [4]},
    "e": "[[",
}
WANTED = [("a",), ("b", "c"), ("b", "d")]


def _pieces(text: bytes, size: int) -> Iterator[bytes]:
    return (text[i : i + size] for i in range(0, len(text), size))


def _sections(text: bytes, size: int) -> dict[tuple[str, ...], list[object]]:
    found: dict[tuple[str, ...], list[object]] = {}
    for path, _, elements in json_sections(
        _pieces(text, size), WANTED, name="f", limits=DEFAULT_LIMITS
    ):
        found.setdefault(path, []).extend(elements)
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
def test_sections_do_not_depend_on_the_pieces(size: int) -> None:
    found = _sections(json.dumps(DOCUMENT).encode(), size)
    assert found == {("a",): DOCUMENT["a"], ("b", "c"): [[1], [2]], ("b", "d"): []}


def test_elements_tell_which_element_of_an_array_around_them_they_are_of() -> None:
    text = json.dumps({"a": [{"b": [1]}, {"c": 0}, {"b": [2], "d": [{"b": [9]}]}, {"b": []}]})
    found = json_sections(_pieces(text.encode(), 3), [("a", "b")], name="f", limits=DEFAULT_LIMITS)
    path = ("a", "b")
    assert list(found) == [(path, 1, [1]), (path, 3, [2]), (path, 4, [])]


def test_elements_come_in_batches() -> None:
    # Some MiB, of which one MiB at most is kept.
    text = json.dumps({"a": [{"n": n, "pad": "x" * 100} for n in range(40_000)]}).encode()
    batches = list(json_sections(_pieces(text, 2**18), [("a",)], name="f", limits=DEFAULT_LIMITS))
    assert len(batches) >= 3
    assert [one["n"] for _, _, batch in batches for one in batch] == list(range(40_000))


def test_every_cut_is_noticed() -> None:
    text = json.dumps(DOCUMENT).encode()
    for end in range(len(text)):
        with pytest.raises(InvalidTraceError, match="no whole JSON document"):
            _sections(text[:end], 5)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a": [1, 2}]', "closes nothing"),
        (b'{"a": [tru]}', "no sound JSON"),
        (b'{"a": ' + b"[" * 500, "nests more than 100 deep"),
        (b"]", "closes nothing"),
    ],
)
def test_what_is_no_json_is_refused(text: bytes, reason: str) -> None:
    with pytest.raises(InvalidTraceError, match=reason):
        _sections(text, 4)
