"""A long array of events is cut between events, whatever its strings hold."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.json_events import JsonEvents
from perfmodel.traces.limits import TraceLimits

LIMITS = TraceLimits(event_bytes=4096, header_bytes=4096)


def _events(text: bytes, *, piece: int = 64, limits: TraceLimits = LIMITS) -> JsonEvents:
    def pieces() -> Iterator[bytes]:
        for begin in range(0, len(text), piece):
            yield text[begin : begin + piece]

    return JsonEvents(pieces(), key="traceEvents", name="file", limits=limits)


def _all(found: JsonEvents) -> list[object]:
    return [event for batch in found.batches() for event in batch]


#: Names with what could be taken for the border of two events.
TEXT = st.text(alphabet='ab"\\{}[], \n\u00e9', max_size=12)
EVENT = st.dictionaries(TEXT, st.one_of(st.integers(), TEXT, st.lists(TEXT, max_size=3)))


@settings(max_examples=60, deadline=None)
@given(events=st.lists(EVENT, max_size=20), piece=st.integers(1, 200), indent=st.booleans())
def test_every_event_is_read_whatever_the_pieces(
    events: list[object], piece: int, indent: bool
) -> None:
    document = {"before": ["}, {"], "traceEvents": events, "after": {"x": 1}}
    text = json.dumps(document, indent=2 if indent else None).encode()
    found = _events(text, piece=piece, limits=TraceLimits())
    assert _all(found) == events
    assert found.members == {"before": ["}, {"], "after": {"x": 1}}
    assert (found.cut, found.rest) == ("", "")


def test_an_array_alone_is_a_document() -> None:
    assert _all(_events(b' [{"a": 1}, {"b": 2}] ')) == [{"a": 1}, {"b": 2}]


def test_a_comma_too_many_and_nan_are_read() -> None:
    found = _all(_events(b'{"traceEvents": [{"a": NaN}, {"b": "x\ty"},]}'))
    assert str(found) == "[{'a': nan}, {'b': 'x\\ty'}]"


def test_what_follows_the_document_is_told() -> None:
    found = _events(b'{"traceEvents": [{"a": 1}], "z": 2} rubbish')
    assert _all(found) == [{"a": 1}]
    assert (found.members, found.rest) == ({"z": 2}, "rubbish")


def test_a_cut_document_gives_its_whole_events() -> None:
    found = _events(b'{"traceEvents": [{"a": 1}, {"b": {"c": 2')
    assert _all(found) == [{"a": 1}]
    assert found.cut == "the file ends in the middle of its events"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"events": []}', "no array 'traceEvents'"),
        (b"PK\x03\x04", "no JSON document"),
        (b'{"traceEvents": [{"a": tru}, {"b": 1}]}', "no sound JSON"),
        (b'{"traceEvents": [' + b"[" * 3000, "nests more than 500 deep"),
        (b'{"traceEvents": [{"a": "' + b"x" * 10_000, "an event of more than"),
        (b'{"a": "' + b"x" * 10_000, "no array"),
    ],
)
def test_what_is_no_such_document_is_refused(text: bytes, reason: str) -> None:
    with pytest.raises(InvalidTraceError, match=reason):
        _all(_events(text))
