"""Read made files of a gigabyte in the formats of further profilers: time and memory.

python benchmarks/trace_formats.py
python benchmarks/trace_formats.py --format nsys-sqlite --gigabytes 0.1
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from trace_report.made import reading
from trace_report.made_formats import WRITERS

#: Memory to stay below for a gigabyte.
MOST_MEMORY_BYTES = 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", choices=sorted(WRITERS), help="one alone")
    parser.add_argument("--gigabytes", type=float, default=1.0)
    arguments = parser.parse_args()
    for name in [arguments.format] if arguments.format else WRITERS:
        print_reading(name, int(arguments.gigabytes * 1e9))


def print_reading(name: str, size_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made"
        one = reading(path, events=WRITERS[name](path, size_bytes))
    held = "held" if one.memory_bytes <= MOST_MEMORY_BYTES else "MISSED"
    print(
        f"{name}: {one.size_bytes / 1e9:.2f} GB, {one.events} events: {one.seconds:.1f} s, "
        f"{one.memory_bytes / 1e6:.0f} MB (aim: {MOST_MEMORY_BYTES / 1e6:.0f} MB, {held}); "
        f"{one.joined} of {one.kernels} kernels joined",
        flush=True,
    )


if __name__ == "__main__":
    main()
