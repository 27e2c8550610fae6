"""Read traces: beside HolisticTraceAnalysis, at a gigabyte, and beside predictions.

    python benchmarks/traces.py                 # all three, printed
    python benchmarks/traces.py --accuracy      # write the section of docs/accuracy.md alone

Traces come from ``--data`` (or PERFMODEL_DATA): its folder wave2/traces. The peer gets a virtual
environment of its own in the cache folder (PERFMODEL_CACHE), which needs a network once.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from accuracy_report.kept_sections import TRACES, with_section
from trace_report.made import reading_of_made_trace
from trace_report.peer import agreements
from trace_report.predicted import predicted_calls, traces_section

from perfmodel.store.durable import write_whole

#: To stay below; relative difference of device time, and bytes of memory for a gigabyte.
MOST_DIFFERENCE = 0.01
MOST_MEMORY_BYTES = 1e9
#: Groups of four events that make a gigabyte.
_GIGABYTE = 1_700_000


def main() -> None:
    arguments = _arguments()
    files = _kineto_traces(arguments.data)
    if arguments.accuracy:
        _write_section(files, arguments.models, arguments.out)
        return
    if not arguments.only_made:
        _print_agreement(files)
        for line in traces_section(predicted_calls(files, arguments.models), "").splitlines()[2:]:
            print(line)
    _print_made(arguments.groups)


def _print_agreement(files: list[Path]) -> None:
    cache = Path(os.environ.get("PERFMODEL_CACHE", Path.home() / ".cache" / "perfmodel"))
    found = agreements(files, cache / "holistic-trace-analysis")
    worst = max((one.difference or 0.0 for one in found), default=0.0)
    for one in found:
        ours = "-" if one.ours_s is None else f"{1e3 * one.ours_s:.3f} ms"
        theirs = "-" if one.theirs_s is None else f"{1e3 * one.theirs_s:.3f} ms"
        said = "-" if one.difference is None else f"{100 * one.difference:.4f} %"
        print(f"{one.file[:60]:60}  {ours:>14}  {theirs:>14}  {said:>10}  {one.reason[:60]}")
    both = sum(one.difference is not None for one in found)
    held = "held" if worst <= MOST_DIFFERENCE else "MISSED"
    print(
        f"{both} of {len(found)} traces read by both; device time differs by {100 * worst:.4f} % "
        f"at most (aim: {100 * MOST_DIFFERENCE:.0f} %, {held})"
    )


def _print_made(groups: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = reading_of_made_trace(Path(folder) / "made.json", groups)
    held = "held" if one.memory_bytes <= MOST_MEMORY_BYTES else "MISSED"
    print(
        f"made trace of {one.size_bytes / 1e9:.2f} GB, {one.events} events: {one.seconds:.1f} s, "
        f"{one.memory_bytes / 1e6:.0f} MB (aim: {MOST_MEMORY_BYTES / 1e6:.0f} MB, {held}); "
        f"{one.joined} of {one.kernels} kernels joined"
    )


def _write_section(files: list[Path], models: Path, out: Path) -> None:
    section = traces_section(
        predicted_calls(files, models), "python benchmarks/traces.py --accuracy"
    )
    write_whole(out, with_section(out.read_text(encoding="utf-8"), TRACES, section).encode())
    print(section)


def _kineto_traces(data: Path | None) -> list[Path]:
    folder = (data or Path("nowhere")) / "wave2" / "traces"
    found = [*folder.glob("hta/**/*.json*"), *folder.glob("kineto/*.json*"),
             *folder.glob("tracelens/**/*.json.gz"), *folder.glob("param/*kineto*")]  # fmt: skip
    return sorted(found)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    stated = os.environ.get("PERFMODEL_DATA")
    parser.add_argument("--data", type=Path, default=Path(stated) if stated else None)
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--accuracy", action="store_true", help="write docs/accuracy.md's section")
    parser.add_argument("--only-made", action="store_true", help="read the made trace alone")
    parser.add_argument("--groups", type=int, default=_GIGABYTE, help="of four events each")
    parser.add_argument("--out", type=Path, default=Path("docs/accuracy.md"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
