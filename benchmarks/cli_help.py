"""Time of ``perfmodel --help`` beside that of starting Python alone.

Prints the median and the slowest of the runs, in milliseconds.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 15
LIMIT_S = 0.3


def seconds(command: list[str]) -> list[float]:
    """Return the wall time of each run of a command, in seconds."""
    times = []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return times[1:]  # the first one fills the file cache


def main() -> None:
    script = str(Path(sys.executable).with_name("perfmodel"))
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "perfmodel --help": [script, "--help"],
        "perfmodel devices --help": [script, "devices", "--help"],
    }
    print(f"{'command':<26} {'median':>9} {'slowest':>9}   ({RUNS} runs)")
    for name, command in commands.items():
        times = seconds(command)
        median = statistics.median(times)
        print(f"{name:<26} {1e3 * median:>6.0f} ms {1e3 * max(times):>6.0f} ms")
        if name.endswith("--help") and median > LIMIT_S:
            sys.exit(f"{name} takes longer than {LIMIT_S} s")


if __name__ == "__main__":
    main()
