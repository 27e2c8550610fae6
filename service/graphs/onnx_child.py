"""Child process that reads one uploaded ONNX file: ``python -m service.graphs.onnx_child``.

Standard input holds a line of JSON with the limits and the settings of the capture, then the
file. Standard output gets a line when the libraries are loaded, then a line of JSON and, if all
went well, the canonical graph. An uploaded file is never executed, and never read in the process
that answers.
"""

from __future__ import annotations

import contextlib
import resource
import sys
import time
from typing import Any

import orjson

from perfmodel.capture.onnx import capture_onnx, samples_of
from perfmodel.errors import InvalidInputError, PerfModelError, UnsupportedOnnxError
from perfmodel.estimator.captures.confinement import peak_bytes, resident_bytes
from perfmodel.graph.canonical import to_json
from perfmodel.graph.ir import Graph
from perfmodel.types import Mode, Precision
from service.http.errors import problem_of

READY = b"ready\n"


def main() -> None:
    """Read one file and answer."""
    header = orjson.loads(sys.stdin.buffer.readline())
    _limit(header["memory_bytes"], header["time_s"])
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    began, held = time.monotonic(), resident_bytes()
    try:
        graph = _graph(sys.stdin.buffer.read(), header["settings"])
        _check_nodes(graph, header["nodes"])
    except PerfModelError as error:
        sys.stdout.buffer.write(orjson.dumps({"problem": problem_of(error)}) + b"\n")
    else:
        canonical = to_json(graph)
        used = {
            "time_s": time.monotonic() - began,
            "memory_bytes": max(0, peak_bytes() - held),
            "nodes": len(graph.nodes),
        }
        sys.stdout.buffer.write(orjson.dumps({"used": used}) + b"\n" + canonical)


def _check_nodes(graph: Graph, most: int) -> None:
    if len(graph.nodes) > most:
        raise UnsupportedOnnxError(
            f"The step has {len(graph.nodes)} operators, more than its budget of {most}. Send a "
            "smaller model, or state a larger budget."
        )


def _graph(file: bytes, settings: dict[str, Any]) -> Graph:
    precision = settings["precision"]
    graph = capture_onnx(
        file,
        dimensions=settings["dimensions"],
        batch_size=settings["batch_size"],
        mode=Mode(settings["mode"]),
        optimizer=settings["optimizer"],
        precision=Precision(precision) if precision else None,
    )
    try:
        samples_of(graph, settings["batch_size"])
    except InvalidInputError as error:
        error.pointer = "/batch_size"
        raise
    return graph


def _limit(memory_bytes: int, time_s: float) -> None:
    with contextlib.suppress(ValueError, OSError):
        # RLIMIT_DATA counts what is written to, not what is mapped: libraries map far more.
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = int(used.ru_utime + used.ru_stime + time_s) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


if __name__ == "__main__":
    main()
