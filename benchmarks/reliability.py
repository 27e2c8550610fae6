"""Measure every promise of reliability, print what was found, and write docs/reliability.md.

Each row of ``reliability_rows/table.py`` runs in a process of its own, one after the other. What
was found is kept beside the page, so that single rows can be measured again::

    python benchmarks/reliability.py
    python benchmarks/reliability.py --fast
    python benchmarks/reliability.py --only single-predictions --only overload

Rows marked with an asterisk measure times: run those with nothing else on the machine.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from reliability_rows.apart import ROOT, measured_apart
from reliability_rows.page import verdict_of, written_page
from reliability_rows.row import Result, Row, Verdict, keep_result, read_results
from reliability_rows.table import ROWS

PAGE = ROOT / "docs" / "reliability.md"


def main(words: Sequence[str] | None = None) -> None:
    """Measure what is asked for, and write the page of everything that was ever measured."""
    options = _parser().parse_args(words)
    # Ended by a signal too, a row is ended with all that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    kept = options.page.with_suffix(".json")
    if not options.report_only:
        for row in _chosen(options):
            result = measured_apart(row, _count(row, options))
            keep_result(kept, result)
            _say(row, result)
    results = read_results(kept)
    options.page.write_text(written_page(ROWS, results), encoding="utf-8")
    print(f"{options.page} is written.")
    verdicts = [verdict_of(results.get(row.name)) for row in _chosen(options)]
    raise SystemExit(any(one in (Verdict.MISSED, Verdict.FAILED) for one in verdicts))


def _chosen(options: argparse.Namespace) -> list[Row]:
    left_out = options.without or ()
    names = options.only or [row.name for row in ROWS]
    return [row for row in ROWS if row.name in names and row.name not in left_out]


def _count(row: Row, options: argparse.Namespace) -> int:
    if options.count is not None:
        return int(options.count)
    return row.fast if options.fast else row.full


def _say(row: Row, result: Result) -> None:
    print(f"{row.title}\n  promised  {row.promised}\n  measured  {result.measured}")
    print(
        f"  verdict   {result.verdict}  ({result.count:,} {row.counted}, {result.took_s:.0f} s, "
        f"load {result.load:g} on {result.cores} cores)",
        flush=True,
    )


def _parser() -> argparse.ArgumentParser:
    names = [row.name for row in ROWS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="small counts")
    parser.add_argument("--only", action="append", choices=names, help="a row; may be repeated")
    parser.add_argument("--without", action="append", choices=names, help="all rows but this one")
    parser.add_argument("--count", type=int, help="another count than that of the form")
    parser.add_argument("--page", type=Path, default=PAGE, help="results are kept beside it")
    parser.add_argument(
        "--report-only", action="store_true", help="write the page again, and measure nothing"
    )
    return parser


if __name__ == "__main__":
    main()
