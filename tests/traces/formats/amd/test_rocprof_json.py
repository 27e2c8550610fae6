"""Chrome traces of rocprof's first generation."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_profiles import rocprof_json

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.trace import KernelKind, Trace


def _read(folder: Path, text: str) -> Trace:
    path = folder / "results.json"
    path.write_text(text)
    return read_trace(path)


def test_kernels_and_copies_in_nanoseconds(tmp_path: Path) -> None:
    trace = _read(tmp_path, rocprof_json())
    kernels = trace.kernels
    assert trace.format == "rocprof-json"
    # The call on the host is left out; 120500 - 110000, not the rounded 10 us.
    assert kernels.duration_ns.tolist() == [10_500, 10_000, 10_000]
    assert kernels.start_ns.tolist() == [0, 1_000, 20_000]
    assert kernels.device.tolist() == [0, 1, -1]
    assert kernels.kind.tolist() == [KernelKind.COMPUTE, KernelKind.COMPUTE, KernelKind.COPY]
    assert [device.index for device in trace.devices] == [0, 1]


def test_a_file_as_rocprof_writes_it_with_commas_before_events(tmp_path: Path) -> None:
    text = rocprof_json().replace("}, {", "}\n,{")
    assert len(_read(tmp_path, text).kernels) == 3


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"EndNs": "120500"', '"EndNs": "1"', "before it starts"),
        ('"EndNs": "120500"', '"EndNs": "soon"', "expected a whole number"),
        ("GPU", "CPU", "nothing that a GPU did"),
        ("{}, {", "7, {", "none of rocprof"),
        ('"otherData"', "", ""),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, old: str, new: str, reason: str) -> None:
    text = rocprof_json().replace(old, new)
    if not reason:
        text, reason = text[: len(text) // 2], "is cut"
    text = text.replace("1 COPY", "1 IDLE")
    with pytest.raises(InvalidTraceError, match=reason):
        _read(tmp_path, text)
