"""Made traces of torch.profiler: two steps of a small training job on one device."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

Event = dict[str, Any]

H100 = {
    "id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_018_279_936, "numSms": 132,
    "computeMajor": 9, "computeMinor": 0,
}  # fmt: skip
FORWARD_THREAD, BACKWARD_THREAD = 11, 12


def call(name: str, ts: float, dur: float, *, tid: int = FORWARD_THREAD, **args: Any) -> Event:
    """Return an operator call; underscores of argument names stand for blanks."""
    named = {key.replace("_", " "): value for key, value in args.items()}
    return {
        "ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur,
        "args": named,
    }  # fmt: skip


def launch(correlation: int, ts: float, dur: float = 2.0, *, tid: int = FORWARD_THREAD,
           name: str = "cudaLaunchKernel") -> Event:  # fmt: skip
    """Return the call of the runtime that launched a kernel."""
    return {
        "ph": "X", "cat": "cuda_runtime", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur,
        "args": {"correlation": correlation},
    }  # fmt: skip


def kernel(name: str, correlation: int, ts: float, dur: float, *, cat: str = "kernel",
           **args: Any) -> Event:  # fmt: skip
    """Return what the device did."""
    return {
        "ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur,
        "args": {"device": 0, "stream": 7, "correlation": correlation, **args},
    }  # fmt: skip


def step_mark(number: int, ts: float, dur: float) -> Event:
    """Return the mark of a step."""
    return {
        "ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 1,
        "tid": FORWARD_THREAD, "ts": ts, "dur": dur, "args": {},
    }  # fmt: skip


def training_step(number: int, at: float) -> list[Event]:
    """Return a step of 100 us: a product forward and backward, a gradient reduced, a copy.

    On the device: 20..30 product, 40..60 its gradient, 55..80 all-reduce, 85..90 a copy.
    """
    shapes = {
        "Input_Dims": [[8, 16], [16, 32]], "Input_type": ["float", "float"],
        "Input_Strides": [[16, 1], [32, 1]], "Concrete_Inputs": ["", ""],
    }  # fmt: skip
    frame = "autograd::engine::evaluate_function: MmBackward0"
    base = 10 * number
    return [
        step_mark(number, at, 100.0),
        call("aten::matmul", at + 4, 10, Sequence_number=number, **shapes),
        call("aten::mm", at + 5, 8, Sequence_number=number, **shapes),
        launch(base + 1, at + 7),
        kernel("sgemm_nn", base + 1, at + 20, 10),
        call(frame, at + 30, 10, tid=BACKWARD_THREAD, Sequence_number=number),
        call("aten::mm", at + 31, 8, tid=BACKWARD_THREAD, **shapes),
        launch(base + 2, at + 33, tid=BACKWARD_THREAD),
        kernel("sgemm_nt", base + 2, at + 40, 20),
        launch(base + 3, at + 45, tid=BACKWARD_THREAD),
        kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", base + 3, at + 55, 25),
        launch(base + 4, at + 82, name="cudaMemcpyAsync"),
        kernel("Memcpy DtoH (Device -> Pinned)", base + 4, at + 85, 5, cat="gpu_memcpy", bytes=64),
    ]


def training_events(steps: int = 2) -> list[Event]:
    """Return some steps after each other, from 1000 us on."""
    return [event for i in range(steps) for event in training_step(i + 1, 1000.0 + 100.0 * i)]


def document(events: list[Event], **members: Any) -> dict[str, Any]:
    """Return a whole trace with its header."""
    return {
        "schemaVersion": 1, "deviceProperties": [H100], "cuda_runtime_version": 12040,
        "traceEvents": events, **members,
    }  # fmt: skip


def write_trace(path: Path, events: list[Event], **members: Any) -> Path:
    """Write a trace, gzipped where its name ends so."""
    text = json.dumps(document(events, **members), indent=1).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path
