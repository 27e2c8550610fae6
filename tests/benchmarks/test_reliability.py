"""The command that measures promises: cheap rows run through, and the page hides nothing."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
import reliability
from reliability_rows import apart
from reliability_rows.answers.contract import mixed
from reliability_rows.page import written_page
from reliability_rows.row import Found, NotHereError, Result, Row, Verdict, read_results
from reliability_rows.table import ROWS
from reliability_rows.tested import judged, read_report

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
RESULT = Result(
    name="disk", verdict=Verdict.MISSED, measured="3 | lost", count=6, took_s=1.5, load=7.0,
    cores=2, at="2026-01-01T00:00+00:00",
)  # fmt: skip


def _row(name: str) -> Row:
    return next(row for row in ROWS if row.name == name)


@pytest.mark.slow
def test_cheap_rows_are_measured_and_others_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "reliability.md"
    with pytest.raises(SystemExit) as ended:
        reliability.main(
            ["--fast", "--only", "webhook", "--only", "read-only", "--page", str(page)]
        )
    said = capsys.readouterr().out
    assert not ended.value.code, said
    found = read_results(page.with_suffix(".json"))
    assert {name: one.verdict for name, one in found.items()} == {
        "webhook": Verdict.HELD, "read-only": Verdict.HELD,
    }  # fmt: skip
    assert said.count("  promised  ") == said.count("  verdict   held") == 2
    assert page.read_text().count("| **not run** |") == len(ROWS) - 2


def test_the_page_has_every_row() -> None:
    lines = PAGE.read_text().splitlines()
    assert len(ROWS) == 22
    for row in ROWS:
        (line,) = [line for line in lines if line.startswith(f"| {row.title}")]
        assert row.promised in line
        assert any(f"{verdict}" in line.rsplit("|", 2)[1] for verdict in Verdict), line


def test_what_was_missed_is_said() -> None:
    page = written_page(ROWS, {"disk": RESULT})
    assert f"Of {len(ROWS)} promises: 1 missed, {len(ROWS) - 1} not run." in page
    assert r"| (6 of 144 failures) 3 \| lost | **missed** |" in page
    timed = replace(RESULT, name="start", measured="9 s")
    assert "(busy machine, load 7) 9 s" in written_page(ROWS, {"start": timed})
    whole = replace(RESULT, count=_row("disk").full)
    assert r"| 3 \| lost | **missed** |" in written_page(ROWS, {"disk": whole})


@pytest.mark.parametrize(
    ("program", "verdict", "words"),
    [
        ("import os; os.abort()", Verdict.FAILED, "broke off (-6)"),
        ("raise ValueError('no disk')", Verdict.FAILED, "ValueError: no disk"),
        ("import time; time.sleep(60)", Verdict.FAILED, "gave up after 1 s"),
        ("pass", Verdict.FAILED, "broke off (0)"),
    ],
)
def test_a_row_that_breaks_off_is_told_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, program: str, verdict: Verdict, words: str
) -> None:
    monkeypatch.setattr(apart, "_CHILD", program)
    limit_s = 1.0 if "sleep" in program else 60.0
    result = apart.measured_apart(replace(_row("disk"), limit_s=limit_s), 1)
    assert (result.verdict, words in result.measured) == (verdict, True), result


def test_tests_that_fail_or_were_skipped_hold_nothing(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    passed = '<testcase name="a"><properties><property name="kills" value="7"/></properties>'
    skipped = '<testcase name="b"><skipped/></testcase>'
    failed = '<testcase name="c"><failure/></testcase>'
    report.write_text(f"<testsuite>{passed}</testcase></testsuite>")
    assert judged(read_report(report)) == Found(measured="7 kills; 1 of 1 tests passed", held=True)
    report.write_text(f"<testsuite>{passed}</testcase>{skipped}</testsuite>")
    with pytest.raises(NotHereError, match="skipped here: b"):
        judged(read_report(report))
    report.write_text(f"<testsuite>{passed}</testcase>{skipped}{failed}</testsuite>")
    found = judged(read_report(report))
    assert not found.held and "1 of 2 tests passed; not c" in found.measured
    report.write_text("<testsuite/>")
    assert not judged(read_report(report)).held


def test_the_slowest_of_what_tests_timed_is_held_to_the_promise(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    cases = [
        f'<testcase name="{name}"><properties><property name="slowest_s" value="{seconds}"/>'
        "</properties></testcase>"
        for name, seconds in (("a", 0.25), ("b", 1.5), ("c", 0.5))
    ]
    report.write_text(f"<testsuite>{''.join(cases)}</testsuite>")
    told = read_report(report)
    assert judged(told).held and judged(told, within_s=1.5).held
    late = judged(told, within_s=1.4)
    words = "3 of 3 tests passed; the slowest 1.50 s of the processor"
    assert late == Found(measured=words, held=False)


def test_bodies_keep_what_was_made_up_and_take_what_is_documented() -> None:
    chance = random.Random(1)
    bodies = [mixed({"job": 0, "x": 1}, [{"job": "known"}], chance) for _ in range(40)]
    assert {body["job"] for body in bodies} == {0, "known"}
    assert all(body["x"] == 1 for body in bodies)
    assert mixed([1], [{"job": "known"}], chance) == [1]
