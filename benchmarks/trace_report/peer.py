"""Kernel sums of HolisticTraceAnalysis, in a virtual environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.trace import KernelKind

#: pandas 3 refuses what it does to some traces of AMD.
_PACKAGES = ("HolisticTraceAnalysis==0.5.0", "pandas<3")

#: Runs over there: sums of durations by category, in microseconds, one JSON line a file.
_SCRIPT = """
import json, logging, sys, warnings
warnings.filterwarnings("ignore"); logging.disable(logging.CRITICAL)
from hta.common.trace import Trace
for path in sys.argv[1:]:
    try:
        trace = Trace(trace_files={0: path}, trace_dir="")
        trace.parse_traces(use_multiprocessing=False)
        events = trace.get_trace(0)
        events = events[events.stream >= 0]
        names = trace.symbol_table.get_sym_table()
        category = events.cat.map(lambda i: names[i].lower())
        sums = {c: float(events.dur[category == c].sum()) for c in set(category)}
        answer = {"sums": sums}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {str(error)[:100]}"}
    print("ANSWER " + json.dumps({"path": path, **answer}), flush=True)
"""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Device time of one trace as both read it.

    Parameters
    ----------
    ours_s, theirs_s : float or None
        Seconds of kernels, copies and fills; None where it was not read.
    """

    file: str
    ours_s: float | None
    theirs_s: float | None
    reason: str = ""

    @property
    def difference(self) -> float | None:
        """Relative difference; None where one of them did not read the file or saw nothing run."""
        if self.ours_s is None or not self.theirs_s:
            return None
        return abs(self.ours_s - self.theirs_s) / self.theirs_s


def agreements(files: Sequence[Path], environment: Path) -> list[Agreement]:
    """Read files with both and compare them."""
    theirs = _theirs(files, environment)
    return [_agreement(file, theirs.get(str(file), {})) for file in files]


def _agreement(file: Path, answer: dict[str, object]) -> Agreement:
    sums = answer.get("sums")
    theirs_s = None
    if isinstance(sums, dict):
        # Waits of the host are listed beside what ran; some lack a duration.
        ran = ("kernel", "gpu_memcpy", "memcpy", "gpu_memset", "memset")
        theirs_s = sum(max(float(sums.get(name, 0.0)), 0.0) for name in ran) * 1e-6
    try:
        kernels = read_trace(file).kernels
    except InvalidTraceError as error:
        return Agreement(file=file.name, ours_s=None, theirs_s=theirs_s, reason=error.message)
    assert set(np.unique(kernels.kind).tolist()) <= {int(kind) for kind in KernelKind}
    return Agreement(
        file=file.name,
        ours_s=float(kernels.duration_ns.sum()) * 1e-9,
        theirs_s=theirs_s,
        reason=str(answer.get("error", "")),
    )


def _theirs(files: Sequence[Path], environment: Path) -> dict[str, dict[str, object]]:
    python = environment / "bin" / "python"
    if not python.exists():
        print(f"making {environment} with {', '.join(_PACKAGES)}", file=sys.stderr)
        venv.create(environment, with_pip=True)
    install = [python, "-m", "pip", "install", "-q", *_PACKAGES]
    subprocess.run(install, check=True, stderr=subprocess.DEVNULL)
    run = subprocess.run(
        [python, "-c", _SCRIPT, *map(str, files)],
        capture_output=True, text=True, check=True,
        env={"HTA_DISABLE_NS_ROUNDING": "1", "HOME": str(environment)},
    )  # fmt: skip
    answers = [
        json.loads(line.removeprefix("ANSWER "))
        for line in run.stdout.splitlines()
        if line.startswith("ANSWER ")
    ]
    return {answer["path"]: answer for answer in answers}
