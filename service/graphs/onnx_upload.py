"""Read an uploaded ONNX file in a child process with bounds on time and memory."""

from __future__ import annotations

import contextlib
import selectors
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from perfmodel.child_modules import module_command, module_environment
from perfmodel.errors import UnsupportedOnnxError
from perfmodel.estimator.captures.turns import Turns
from perfmodel.estimator.jobs.capture_terms import CaptureBudget, CaptureUse, terms_of_request
from service.http.errors import OverloadedError

#: What a child may take to load its libraries; not counted against the file.
_START_S = 30.0


class RefusedUploadError(UnsupportedOnnxError):
    """A file that the child refused; carries the problem that it described."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        super().__init__(str(content["detail"]))
        self.content = dict(content)


def read_onnx(file: bytes, capture: Mapping[str, Any], most: CaptureBudget, turns: Turns) -> bytes:
    """Turn an ONNX file into a canonical graph, once it is the turn of who sent it.

    Parameters
    ----------
    capture : mapping
        ``batch_size``, ``mode``, ``optimizer``, ``precision`` and ``dimensions``.
    most : CaptureBudget
        What it may take, unless its request states less.
    turns : Turns
        Of the processes that capture; the child is one of them.

    Raises
    ------
    UnsupportedOnnxError
        A file that is refused, or took too much.
    BusyError, OverloadedError
        No process was free in time, or the machine is too busy to begin.
    """
    terms = terms_of_request()
    budget = most.at_most(terms.budget)
    header = {
        "time_s": budget.time_s,
        "memory_bytes": budget.memory_bytes,
        "nodes": budget.nodes,
        "settings": dict(capture),
    }
    with turns.turn(terms.caller), _child() as child:
        head, canonical = _converse(child, orjson.dumps(header) + b"\n", file, budget)
    terms.uses.append(CaptureUse(**head["used"]))
    return canonical


@contextlib.contextmanager
def _child() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        module_command("service.graphs.onnx_child"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=module_environment({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}),
    )
    with child:
        try:
            yield child
        finally:
            child.kill()


def _converse(
    child: subprocess.Popen[bytes], header: bytes, file: bytes, budget: CaptureBudget
) -> tuple[dict[str, Any], bytes]:
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(header)
    child.stdin.flush()
    _await_start(child)
    try:
        output, _ = child.communicate(file, timeout=budget.time_s)
    except subprocess.TimeoutExpired as error:
        raise UnsupportedOnnxError(
            f"Reading the ONNX file took longer than {budget.time_s:g} s. Send a smaller "
            "model, or capture it on your side and send the graph."
        ) from error
    head, _, canonical = output.partition(b"\n")
    if not head:
        raise UnsupportedOnnxError(
            f"Reading the ONNX file needed more than {budget.memory_bytes} bytes of memory "
            "or broke its reader. Send a smaller model, or capture it on your side and send the "
            "graph."
        )
    answer: dict[str, Any] = orjson.loads(head)
    if "problem" in answer:
        raise RefusedUploadError(answer["problem"])
    return answer, canonical


def _await_start(child: subprocess.Popen[bytes]) -> None:
    assert child.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        if not selector.select(_START_S):
            raise OverloadedError(
                f"The process that reads ONNX files did not start within {_START_S:g} s. Ask again "
                "later."
            )
    # Nothing more comes before the file is sent: no byte of an answer is lost in a buffer.
    child.stdout.readline()
