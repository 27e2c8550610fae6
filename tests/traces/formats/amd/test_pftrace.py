"""rocprofv3's traces for Perfetto."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from made_up_profiles import message, pftrace

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.trace import KernelKind, Trace


def _read(folder: Path, content: bytes) -> Trace:
    path = folder / "1_results.pftrace"
    path.write_bytes(content)
    return read_trace(path)


@pytest.mark.parametrize("packed", [False, True])
def test_kernels_copies_and_what_launched_them(tmp_path: Path, packed: bool) -> None:
    content = pftrace()
    trace = _read(tmp_path, gzip.compress(content) if packed else content)
    kernels = trace.kernels
    assert trace.format == "pftrace"
    names = [trace.names[name] for name in kernels.name]
    assert names == ["gemm(float*)", "MEMORY_COPY_HOST_TO_DEVICE"]
    # The earliest time is the call's, 70 001 000.
    assert kernels.start_ns.tolist() == [4_000, 8_000]
    assert kernels.duration_ns.tolist() == [3_000, 400]
    assert kernels.launch_start_ns.tolist() == [0, -1]
    assert kernels.launch_duration_ns.tolist() == [1_000, -1]
    assert kernels.kind.tolist() == [KernelKind.COMPUTE, KernelKind.COPY]
    assert kernels.size_bytes.tolist() == [-1, 64]
    assert (kernels.device.tolist(), kernels.stream.tolist()) == ([0, 0], [2, 3])
    # Agents are numbers in it: the accelerator has to be named.
    assert [(one.index, one.accelerator) for one in trace.devices] == [(0, None)]


def test_processes_are_told_apart(tmp_path: Path) -> None:
    """The call of the second process bears the id of the first one's kernel."""
    trace = _read(tmp_path, pftrace(number=8) + pftrace(process=200))
    computed = trace.kernels.kind == KernelKind.COMPUTE
    assert (trace.kernels.launch_start_ns[computed] >= 0).tolist() == [False, True]


def test_a_buffer_that_was_full_makes_a_trace_that_is_not_whole(tmp_path: Path) -> None:
    lost = message([(1, message([(18, 5)]))])
    trace = _read(tmp_path, pftrace(extra=[(35, lost)]))
    assert not trace.complete
    assert any("buffer" in note for note in trace.notes)
    assert _read(tmp_path, pftrace(extra=[(35, message([(1, b"")]))])).complete


def _slice(*fields: tuple[int, int | bytes]) -> bytes:
    return pftrace(extra=[(11, message([(22, b"kernel_dispatch"), (9, 1), *fields]))])


def _own(key: bytes, value: int) -> tuple[int, bytes]:
    return 4, message([(10, key), (3, value)])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (pftrace()[:-3], "is cut"),
        (_slice((23, b"a")), "not as rocprofv3 writes it"),
        (_slice((10, 77), _own(b"begin_ns", 5)), "not as rocprofv3 writes it"),
        (_slice((23, b"a"), _own(b"begin_ns", 9), _own(b"end_ns", 5)), "ends 4 ns before"),
        (message([(1, message([(3, 0), (10, 1)]))]), "without a kernel of rocprofv3"),
        (pftrace(extra=[(50, b"packed")]), "traceconv"),
        (pftrace() + b"rubbish", "what is none"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    with pytest.raises(InvalidTraceError, match=reason):
        _read(tmp_path, content)


def test_words_and_tracks_without_end_are_refused(tmp_path: Path) -> None:
    word = message([(1, 1), (2, b"x" * 2**20)])
    packet = (1, message([(3, 0), (10, 7), (12, message([(1, word), (2, word)]))]))
    # 65 times 2 MiB are more than 128 MiB of words; of tracks 100 000 are too many.
    with pytest.raises(InvalidTraceError, match="bytes of words"):
        _read(tmp_path, message([packet] * 65))
    tracks = (message([(1, message([(3, 0), (60, message([(1, n)]))]))]) for n in range(100_001))
    with pytest.raises(InvalidTraceError, match="more than 100000 tracks"):
        _read(tmp_path, b"".join(tracks))
