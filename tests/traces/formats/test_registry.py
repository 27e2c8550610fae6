"""Files of no known format are refused with what to give instead."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from made_up_profiles import KERNEL_TRACE

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.registry import read_trace

CHROME = b'{"displayTimeUnit": "ns", "traceEvents": [{"ph": "X", "name": "fusion"}]}'


@pytest.mark.parametrize(
    ("name", "content", "instead"),
    [
        ("a.nsys-rep", b"\0\1binary", "nsys export --type sqlite"),
        ("a.pftrace", b"\x0a\x03\x12\x01\x00", "Record it again"),
        ("a.otf2", b"OTF2\x02\x02", "--output-format rocpd"),
        ("a.otf2", b"OTF2\x02\x02", "rocpd convert -i FILE.db"),
        ("a.ncu-rep", b"NVR\0", "Nsight Systems"),
        ("a.7z", b"7z\xbc\xaf\x27\x1c", "Unpack it first"),
        ("a.txt", b"-----  -----\n   Name  Self CPU %  Self CPU\n", "export_chrome_trace"),
        ("a.json", b"\x28\xb5\x2f\xfd\x04", "Unpack it first"),
        ("a.json", CHROME, "xplane.pb"),
        ("a.json", b'[{"Time (%)":100.0,"Instances":2}]', "--format csv"),
        ("a.txt", b"+---+---+\n| Time (%) | Total |\n", "--format csv"),
        ("a.txt", b"&&&& RUNNING TensorRT.trtexec [TensorRT v8601] # trtexec", "--exportProfile"),
        ("a.json.gz", gzip.compress(b'{"traceEvents": []}', mtime=0), "packed twice"),
        ("a.json", b'[{"name": "aten::mm", "ph": "X", "pid": "CPU functions"}]', "torch.profiler"),
        ("a.csv", b'==12== Profiling result:\n"Type","Time(%)"\n', "nvprof is not read"),
        ("a.csv", b'"ID","Process ID","Kernel Name"\n', "Nsight Systems"),
        ("a.csv", b"Virtual Address,HtoD Migration Size (MB),CPU Page Faults\n", "no times"),
        ("a.txt", b"ROCPROFV3 SUMMARY:\n\n|  NAME  |", "kernel_stats.csv"),
        ("a.json", b'{"schema": "2.0.0", "nodes": []}', "schemas 1.x"),
        ("a.json", b'[\n { "name" : "y", "dimensions" : "1x3"}]', "no times"),
        ("a.json", b"[[1795617050033900, 1795617050033901], [[1, 2]]]", "Memory timelines"),
        ("a.json", b"[[-1, 1, 64, 7], [-1, 1, 1728, 0]]", "Memory timelines"),
        ("a.txt", b"train.py(43): <module>;nn/linear.py(1): forward 12\n", "export_stacks"),
        ("a.pickle", b"\x80\x04\x95\x00", "snapshots of memory"),
        ("a.json.gz", b"<!DOCTYPE html>\n<title>Not found</title>", "page of the web"),
        ("a.json", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
    ],
)
def test_what_to_give_instead_is_said(
    tmp_path: Path, name: str, content: bytes, instead: str
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(InvalidTraceError, match="no known trace format") as refused:
        read_trace(path)
    assert instead in refused.value.message.split("Known are:")[0]


def test_a_sound_file_in_which_nothing_ran_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kernel_trace.csv"
    path.write_text(KERNEL_TRACE.splitlines()[0] + "\n")
    with pytest.raises(InvalidTraceError, match=r"\(rocprof\) is sound and empty"):
        read_trace(path)
