"""Traces that others took, of every format but Kineto's: read or refused, sums counted again.

Each sum is worked out once more from the same file by a few lines that share nothing with the
readers.
"""

from __future__ import annotations

import csv
import gzip
import json
import tarfile
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from published_files import published

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.trace import Trace

FOLDERS = ("chakra", "nsys", "param", "rocprof", "tracelens", "trtexec")
KINETO = ("tracelens/*.json.gz", "param/*kineto.json.gz")
#: Counted again: device time in ns, kernels, calls on the host.
Sums = tuple[int, int, int]


def _sums(trace: Trace) -> Sums:
    return int(trace.kernels.duration_ns.sum()), len(trace.kernels), len(trace.operators)


def _loaded(path: Path) -> Any:
    content = path.read_bytes()
    return json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)


def _dispatches(path: Path) -> Sums:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return (
        sum(int(row["End_Timestamp"]) - int(row["Start_Timestamp"]) for row in rows), len(rows), 0,
    )  # fmt: skip


def _pairs(path: Path) -> Sums:
    with path.open(encoding="utf-8") as file:
        entered = [row for row in csv.DictReader(file) if row["Event Type"] == "Enter"]
    spans = [int(row["_matching_timestamp"]) - int(row["Timestamp (ns)"]) for row in entered]
    return sum(spans), len(spans), 0


def _rocprofv3(path: Path) -> Sums:
    records = _loaded(path)["rocprofiler-sdk-tool"][0]["buffer_records"]
    spans = [
        one["end_timestamp"] - one["start_timestamp"]
        for one in records["kernel_dispatch"] + records["memory_copy"]
    ]
    return sum(spans), len(spans), 0


def _layers(path: Path) -> int:
    return len(
        _loaded(path.with_name(path.name.split(".engine")[0] + ".engine.graph.json"))["Layers"]
    )


def _layer_times(path: Path) -> Sums:
    entries = [entry for entry in _loaded(path) if "timeMs" in entry]
    return sum(round(e["timeMs"] * 1e6) for e in entries), len(entries), _layers(path)


def _iterations(path: Path) -> Sums:
    entries = _loaded(path)
    computed = [round(entry["computeMs"] * 1e6) for entry in entries]
    assert all(entry["h2dMs"] == entry["d2hMs"] == 0 for entry in entries)
    return sum(computed), len(computed), _layers(path)


def _layers_alone(path: Path) -> Sums:
    return 0, 0, len(_loaded(path)["Layers"])


def _nodes(path: Path) -> Sums:
    return 0, 0, len(_loaded(path)["nodes"])


def _packed(path: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None and not Path(member.name).name.startswith("._"):
                yield member.name, content.read()


def _packed_nodes(path: Path) -> Sums:
    found = [json.loads(text) for name, text in _packed(path) if name.endswith(".json")]
    return 0, 0, len(found[0]["nodes"])


def _fields(text: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, value and bytes of each field of a protobuf message."""

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = text[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    at = 0
    while at < len(text):
        tag = number()
        value = number()
        if tag & 7 == 2:
            yield tag >> 3, 0, text[at : at + value]
            at += value
        else:
            yield tag >> 3, value, b""


def _chakra(path: Path) -> Sums:
    text = dict(_packed(path))["tests/data/chakra.0.et"]
    # Nodes one after the other, each behind its length: as fields of a message without tags.
    took, kernels, calls = 0, 0, -1  # the header is no call
    at = 0
    while at < len(text):
        size = shift = 0
        while True:
            size |= (text[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if text[at - 1] < 0x80:
                break
        node = text[at : at + size]
        at += size
        on_device = b"is_cpu_op\xd8\x01\x00" in node
        kernels += on_device
        calls += not on_device
        if on_device:
            took += next((value for number, value, _ in _fields(node) if number == 7), 0)
    return took * 1000, kernels, calls


def _xplane(path: Path) -> Sums:
    took, events = 0, 0
    planes = [part for _, _, part in _fields(path.read_bytes()) if b"/device:GPU:" in part[:40]]
    for line in (part for plane in planes for number, _, part in _fields(plane) if number == 3):
        for number, _, event in _fields(line):
            if number == 4:
                events += 1
                took += round(next(v for n, v, _ in _fields(event) if n == 3) / 1000)
    return took, events, 0


#: The first pattern that fits decides: how to count again, or a part of the reason for refusing.
EXPECTED: tuple[tuple[str, Callable[[Path], Sums] | str], ...] = (
    ("chakra/58fda3ed*", "holds 2 traces"),
    ("chakra/23fb5174*", _packed_nodes),
    ("chakra/*", _chakra),
    ("nsys/*api_trace.csv", "calls on the host, as pipit reshaped them"),
    ("nsys/*gpu_trace.csv", _pairs),
    ("nsys/*.md", "several runs stand in it"),
    ("param/*.tar.gz", _packed_nodes),
    ("param/*_et.json.gz", _nodes),
    ("rocprof/*results.json.gz", _rocprofv3),
    ("rocprof/*/sysinfo.csv", "describes the machine"),
    ("rocprof/*/roofline.csv", "peaks that rocprofiler-compute measured"),
    ("rocprof/*/pmc_dispatch_info.csv", "not when they ran"),
    # Those in no_roof are whole nanoseconds.
    ("rocprof/vcopy/MI300*", "a spreadsheet has rounded it"),
    ("rocprof/*.csv", _dispatches),
    ("tracelens/*.xplane.pb", _xplane),
    ("trtexec/*metadata.json", "describes a machine or a build"),
    ("trtexec/*.graph.json", _layers_alone),
    ("trtexec/*.profile.json", _layer_times),
    ("trtexec/*.timing.json.gz", _iterations),
)


def test_every_file_is_read_or_refused_with_the_reason() -> None:
    root = published("wave2/traces")
    if not root.is_dir():
        pytest.skip("PERFMODEL_DATA has no wave2/traces")
    used: set[str] = set()
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.*")):
        name = path.relative_to(root).as_posix()
        if any(fnmatch(name, pattern) for pattern in KINETO) or not path.is_file():
            continue
        pattern, expected = next(one for one in EXPECTED if fnmatch(name, one[0]))
        used.add(pattern)
        if isinstance(expected, str):
            with pytest.raises(InvalidTraceError, match=expected):
                read_trace(path)
        else:
            assert _sums(read_trace(path)) == expected(path), name
    assert used == {pattern for pattern, _ in EXPECTED}


@pytest.mark.parametrize(
    ("name", "accelerators"),
    [
        ("rocprof/TraceLens_908_results.json.gz", {"MI350X"}),
        ("rocprof/vcopy/MI100/timestamps.csv", {"MI100"}),
        # gfx90a with 104 units: an MI210 and half an MI250 look alike.
        ("rocprof/vcopy/MI200/timestamps.csv", {None}),
        ("rocprof/no_roof/MI300X_A1/timestamps.csv", {"MI300X"}),
        ("tracelens/traces/mi300/jax_conv_minimal_08/tw003.xplane.pb", {"MI300X"}),
        ("trtexec/examples/pytorch/resnet/A100/fp16/resnet.onnx.engine.profile.json",
         {"A100-PCIe-80GB"}),
        ("trtexec/tests/inputs/mobilenet.qat.onnx.engine.profile.json", {"TITAN-RTX"}),
    ],
)  # fmt: skip
def test_devices_are_those_of_the_catalogue(name: str, accelerators: set[str | None]) -> None:
    path = published(f"wave2/traces/{name}")
    if not path.is_file():
        pytest.skip("PERFMODEL_DATA has no wave2/traces")
    assert {device.accelerator for device in read_trace(path).devices} == accelerators
