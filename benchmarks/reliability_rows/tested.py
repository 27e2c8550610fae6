"""Rows that tests measure: the same tests as in every run, with larger counts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from reliability_rows.row import Found, NotHereError

ROOT = Path(__file__).resolve().parents[2]
#: How often tests try that are told so (``tests/often.py``).
SETTING = "PERFMODEL_TEST_TIMES"
#: Threads of boosters would wait for one another by turning round, longest where others compute.
_ONE_THREAD = {"OMP_NUM_THREADS": "1"}


@dataclass
class Told:
    """What a run of tests told.

    Parameters
    ----------
    figures : Counter of str
        What tests recorded, added up.
    slowest_s : float
        What took longest of all that tests timed (``tests/slowest.py``); they judge no times.
    """

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0


def by_tests(*names: str, within_s: float | None = None) -> Callable[[int], Found]:
    """Return what runs tests as often as it is told and reads what came of them.

    Parameters
    ----------
    within_s : float or None
        Longest that anything they time may take.
    """

    def measure(count: int) -> Found:
        return judged(run_tests(names, count), within_s=within_s)

    return measure


def run_tests(names: tuple[str, ...], count: int) -> Told:
    """Run tests by their names below the project, each as often as counted."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o",
             "junit_family=xunit1", f"--junitxml={report}", *names],
            cwd=ROOT, check=False, env={**os.environ, **_ONE_THREAD, SETTING: str(count)},
        )  # fmt: skip
        if not report.exists():
            raise RuntimeError("the tests ended without a report")
        return read_report(report)


def read_report(path: Path) -> Told:
    """Read what pytest wrote in the form of JUnit."""
    told = Told()
    for case in ElementTree.parse(path).iter("testcase"):
        name = str(case.get("name"))
        if case.find("failure") is not None or case.find("error") is not None:
            told.failed.append(name)
        elif case.find("skipped") is not None:
            told.skipped.append(name)
        else:
            told.passed += 1
        for one in case.iter("property"):
            _note(told, str(one.get("name")), str(one.get("value")))
    return told


def _note(told: Told, name: str, value: str) -> None:
    if name == "slowest_s":
        told.slowest_s = max(told.slowest_s, float(value))
    else:
        told.figures[name] += int(value)


def judged(told: Told, *, within_s: float | None = None) -> Found:
    """Return what tests say of a promise: one that was skipped says nothing."""
    if not told.failed and told.skipped:
        raise NotHereError(f"skipped here: {', '.join(told.skipped[:3])}")
    figures = [f"{count:,} {what}" for what, count in told.figures.items()]
    total = told.passed + len(told.failed)
    parts = [*figures, f"{told.passed} of {total} tests passed"]
    if within_s is not None:
        parts.append(f"the slowest {told.slowest_s:.2f} s of the processor")
    if told.failed:
        parts.append(f"not {', '.join(told.failed[:3])}")
    in_time = within_s is None or told.slowest_s <= within_s
    held = told.passed > 0 and not told.failed and in_time
    return Found(measured="; ".join(parts), held=held)
