"""Public traces of torch.profiler, of several devices: each is read, and its sums are right."""

from __future__ import annotations

import gzip
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmodel.traces.analysis.explanation import explain_trace
from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.trace import Trace

FOLDER = Path(os.environ.get("PERFMODEL_DATA") or "nowhere") / "wave2" / "traces"
FILES = sorted(
    path
    for pattern in ("hta/**/*.json*", "kineto/*.json*", "tracelens/**/*.json.gz", "param/*kineto*")
    for path in FOLDER.glob(pattern)
)
pytestmark = pytest.mark.skipif(not FILES, reason="PERFMODEL_DATA holds no traces")

#: Of the device, by the folder or file that says it; the others name none, or one of several.
DEVICES = {
    "mi300": "MI300X", "sglang": "MI300X", "vllm": "MI300X", "normalization": "MI300X",
    "torch_compile": "MI300X", "mi210": "MI210", "tracelens/traces/h100": "H100-SXM5-80GB",
    "2080": "RTX-2080Ti", "resnet_kineto": "RTX-2080Ti", "df_index": "V100-SXM2-32GB",
    "ns_resolution": "V100-SXM2-32GB", "be239c04": "V100-SXM2-32GB", "nccl": "A100-SXM4-40GB",
    "control": "A100-SXM4-40GB", "critical_path": "A100-SXM4-40GB",
}  # fmt: skip
#: Marked steps, where the trace has them; steps found by repetition behind a +.
STEPS = {
    "mi250": 2, "df_index": 5, "nccl_data": 3, "rank-0.Apr": 5, "sampled": 2, "control": 6,
    "Falconsai": 1, "Qwen_": 1, "gaunernst": 1, "bs_32": 1,
}  # fmt: skip
#: No operator stands for what they ran: there are none in the trace.
UNJOINED = ("gpu_only",)


def _name(path: Path) -> str:
    return str(path.relative_to(FOLDER))


@cache
def _trace(path: Path) -> Trace:
    return read_trace(path)


def _events(path: Path) -> list[dict[str, Any]]:
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    found: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    return found


def test_there_are_as_many_as_were_published() -> None:
    assert len(FILES) >= 33


@pytest.mark.parametrize("path", [p for p in FILES if p.stat().st_size < 500_000], ids=_name)
def test_sums_are_those_of_a_plain_reading(path: Path) -> None:
    kinds = {"kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset"}
    durations = [e["dur"] for e in _events(path) if e.get("cat") in kinds and e["ph"] == "X"]
    kernels = _trace(path).kernels
    assert len(kernels) == len(durations)
    # Microseconds with three decimals; each is rounded to a nanosecond.
    assert abs(kernels.duration_ns.sum() - 1e3 * sum(durations)) <= len(durations)


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_kernels_are_joined_and_devices_and_steps_known(path: Path) -> None:
    trace, name = _trace(path), _name(path)
    assert (trace.format, trace.complete) == ("kineto", True)
    operators, kernels = trace.operators, trace.kernels
    if len(kernels):
        launched = kernels.operator[kernels.operator >= 0]
        assert np.all(operators.start_ns[launched] >= 0)
    for word, accelerator in DEVICES.items():
        if word in name:
            assert trace.devices[0].accelerator == accelerator, name
    for word, steps in STEPS.items():
        if word in name:
            assert len(trace.steps) == steps


@pytest.mark.parametrize("path", [p for p in FILES if p.stat().st_size < 200_000], ids=_name)
def test_explanations_add_up(path: Path) -> None:
    found = explain_trace(_trace(path))
    if not any(word in _name(path) for word in UNJOINED):
        assert found.joined_share >= 0.95
    for device in found.times:
        parts = (device.computing_s, device.exposed_s, device.moving_s, device.idle_s)
        assert sum(parts) == pytest.approx(device.window_s, rel=1e-6)
        assert 0.0 <= device.launch_bound_s <= device.idle_s + 1e-9
    for one in found.operators:
        if one.roofline_share is not None and one.operator.time_per_call_s > 20e-6:
            assert one.roofline_share < 1.05
