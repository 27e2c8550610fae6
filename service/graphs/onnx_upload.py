"""Read an uploaded ONNX file in a child process with bounds on time and memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from typing import Any

import orjson

from perfmodel.errors import UnsupportedOnnxError
from service.http.errors import OverloadedError
from service.settings import Settings

#: What a child may take to load its libraries; not counted against the file.
_START_S = 30.0


class RefusedUploadError(UnsupportedOnnxError):
    """A file that the child refused; carries the problem that it described."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        super().__init__(str(content["detail"]))
        self.content = dict(content)


async def read_onnx(file: bytes, capture: Mapping[str, Any], settings: Settings) -> bytes:
    """Turn an ONNX file into a canonical graph.

    Parameters
    ----------
    capture : mapping
        ``batch_size``, ``mode``, ``optimizer``, ``precision`` and ``dimensions``.

    Raises
    ------
    UnsupportedOnnxError
        A file that is refused, or took too much.
    OverloadedError
        The machine is too busy to begin.
    """
    header = {
        "time_s": settings.onnx_time_s,
        "memory_bytes": settings.onnx_memory_bytes,
        "settings": dict(capture),
    }
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "service.graphs.onnx_child",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        return await _converse(child, orjson.dumps(header) + b"\n", file, settings)
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


async def _converse(
    child: asyncio.subprocess.Process, header: bytes, file: bytes, settings: Settings
) -> bytes:
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(header)
    try:
        await asyncio.wait_for(child.stdout.readline(), _START_S)
    except TimeoutError as error:
        raise OverloadedError(
            f"The process that reads ONNX files did not start within {_START_S:g} s. Ask again "
            "later."
        ) from error
    try:
        output, _ = await asyncio.wait_for(child.communicate(file), settings.onnx_time_s)
    except TimeoutError as error:
        raise UnsupportedOnnxError(
            f"Reading the ONNX file took longer than {settings.onnx_time_s:g} s. Send a smaller "
            "model, or capture it on your side and send the graph."
        ) from error
    head, _, canonical = output.partition(b"\n")
    if not head:
        raise UnsupportedOnnxError(
            f"Reading the ONNX file needed more than {settings.onnx_memory_bytes} bytes of memory "
            "or broke its reader. Send a smaller model, or capture it on your side and send the "
            "graph."
        )
    answer = orjson.loads(head)
    if "problem" in answer:
        raise RefusedUploadError(answer["problem"])
    return canonical
