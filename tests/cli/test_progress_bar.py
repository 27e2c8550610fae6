"""How far commands are: lines in a file, a bar on a terminal, an end time in both."""

from __future__ import annotations

import io
import json
import re
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from perfmodel.cli.learning import measuring
from perfmodel.cli.learning.probe import _Shown
from perfmodel.cli.progress_bar import ProgressBar, end_in
from perfmodel.graph.job import Job
from perfmodel.profilers import device_lock
from perfmodel.profilers.profiling import EventKind, ProfileEvent

#: UTC, to the second.
ENDS = r"left, ends \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00"


class Terminal(io.StringIO):
    """Says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def _event(kind: EventKind) -> ProfileEvent:
    return ProfileEvent(kind=kind, job=Job(model="zoo/mlp"), position=1, total=1, elapsed_s=1.0)


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(sys, "stderr", screen)
    with ProgressBar() as bar:
        bar.line("[1/4] one [b]bracket[/b]")
        bar.advance("two", 1, 4, end_in(90.0))
    shown = screen.getvalue()
    assert "[1/4] one [b]bracket[/b]" in shown
    assert "1/4" in shown.split("bracket[/b]")[1]
    assert re.search(ENDS, shown)


def test_a_file_gets_lines_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar() as bar:
        bar.line("one")
        bar.advance("two", 1, 4, end_in(90.0))
    assert capsys.readouterr().err == "one\n"


def test_parts_of_a_probe_are_counted_over_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar() as bar:
        shown = _Shown(bar, total=3, budget_s=600.0)
        for kind in (EventKind.SKIPPED, EventKind.STARTED, EventKind.SKIPPED):
            shown(_event(kind))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines] == ["[1/3]", "[3/3]"]
    assert all(re.search(ENDS, line) for line in lines)


def test_measurements_say_when_they_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Whoever measures on this machine meanwhile holds its lock.
    monkeypatch.setattr(device_lock, "machine_lock", nullcontext)
    now_s = iter((0.0, 30.0))  # at the beginning, and when the first of three has ended
    monkeypatch.setattr(measuring, "time", SimpleNamespace(monotonic=lambda: next(now_s, 60.0)))
    tasks = [measuring.Task(label=name, measure=list) for name in "abc"]
    measuring.run_tasks(tasks, tmp_path, as_json=True)
    printed = capsys.readouterr()
    assert json.loads(printed.out)["measured"] == []
    first, second, _ = printed.err.splitlines()
    assert first == "[1/3] a  (end unknown yet)"
    # One took 30 s, two are left.
    assert re.fullmatch(r"\[2/3\] b  \(60 s " + ENDS + r"\)", second)
