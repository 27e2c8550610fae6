"""Child process that captures jobs: ``python -m perfmodel.estimator.capture_child``.

One line of JSON in, a job; one line of JSON out, followed by the canonical graph.
"""

from __future__ import annotations

import os
import sys
from typing import Any, BinaryIO

import orjson

from perfmodel.errors import PerfModelError
from perfmodel.estimator.capture import capture_in_process
from perfmodel.graph.canonical import to_json
from perfmodel.requests import parse_job


def main() -> None:
    """Answer until the input ends."""
    # Libraries print; what they print must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        _answer(orjson.loads(line), answers)


def _answer(job: dict[str, Any], answers: BinaryIO) -> None:
    canonical = b""
    try:
        step = capture_in_process(parse_job(job))
    except PerfModelError as error:
        fields = {name: value for name, value in vars(error).items() if not name.startswith("_")}
        head: dict[str, Any] = {"error": type(error).__name__, "fields": fields}
    else:
        canonical = to_json(step.graph)
        head = {"tokens_per_sample": step.tokens_per_sample, "size_bytes": len(canonical)}
    answers.write(orjson.dumps(head) + b"\n" + canonical)
    answers.flush()


if __name__ == "__main__":
    main()
