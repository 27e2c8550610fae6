"""XPlane files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from made_up_profiles import message, xplane

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.trace import KernelKind


def _written(folder: Path, content: bytes) -> Path:
    path = folder / "host.xplane.pb"
    path.write_bytes(content)
    return path


def test_streams_of_a_gpu(tmp_path: Path) -> None:
    trace = read_trace(_written(tmp_path, xplane()))
    assert [trace.names[position] for position in trace.kernels.name] == [
        "loop_add_fusion", "MemcpyH2D",
    ]  # fmt: skip
    # 10^6 ps are 1000 ns; the second starts 4 us after the first.
    assert trace.kernels.duration_ns.tolist() == [3_000, 1_000]
    assert trace.kernels.start_ns.tolist() == [0, 4_000]
    assert trace.kernels.kind.tolist() == [KernelKind.COMPUTE, KernelKind.COPY]
    assert trace.kernels.size_bytes.tolist() == [-1, 64]
    assert trace.kernels.stream.tolist() == [7, 7]
    device = trace.devices[0]
    # No plane names its device: 304 compute units of gfx94 with 192 GB are found.
    assert (device.accelerator, device.guessed) == ("MI300X", True)


def _line(start_ns: int, duration_ps: int, name: bytes = b"Stream #7(Kernel)") -> bytes:
    event = message([(1, 1), (2, 0), (3, duration_ps)])
    line = message([(2, name), (3, start_ns), (4, event)])
    return message([(1, message([(2, b"/device:GPU:0"), (3, line)]))])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (_line(100, 2**64 - 5), "takes -5 ps"),
        (_line(2**63 - 1, 5), "starts at 9223372036854775807 ns"),
        (_line(100, 5, b"Steps"), "lists nothing that a GPU ran"),
        (message([(1, message([(2, b"/device:TPU:0")]))]), "TPUs and hosts are not read"),
        (xplane()[:-7], "no whole XPlane file"),
        (gzip.compress(xplane()), "unpack it"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    with pytest.raises(InvalidTraceError, match=reason):
        read_trace(_written(tmp_path, content))


def test_lines_that_are_drawn_from_streams_are_not_counted_again(tmp_path: Path) -> None:
    trace = read_trace(_written(tmp_path, _line(100, 5_000) + _line(100, 5_000, b"XLA Ops")))
    assert trace.kernels.duration_ns.tolist() == [5]
