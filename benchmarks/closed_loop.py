"""Replay published measurements as a cluster would see them, with the loop and without.

    python benchmarks/closed_loop.py --data FOLDER

Records come one after another; each is asked about before it is learned from or observed.

- *devices*: Lambda's training steps by the PyTorch release that they ran on, device by device. The
  model at the start knows those of the first release, networks of timm on its four devices, and
  NVIDIA's examples on V100; of other devices that come later it knows nothing.
- *releases*: timm's networks on RTX 3090 under one release of PyTorch after the other, from 1.11 to
  2.4. The model at the start knows that card under 1.10, and nothing newer of any device.
- *software*: timm's inference on RTX 4090 under PyTorch 2.9, which the model at the start has not
  seen on any device.
- *placements*: Sia's jobs on clusters, one kind of accelerator after the other. They are scripts,
  most on several accelerators, from which no model of single steps learns: evidence alone answers.

Four ways: *nothing* (the model at the start), *evidence* (it, corrected by what was observed so
far, as the service answers), *learned* (versions that the gate accepted) and both. A fit runs
after every 50 records, and when an alarm names anything but a device; between fits the quick path
runs after 4 records of a device and whenever they have doubled, and when an alarm names it. One
arrival of five is kept back for the gate.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
from pathlib import Path

from loop_replay.page import write_page
from loop_replay.results import Results
from loop_replay.streams import STREAMS, run_stream


def main() -> None:
    """Replay, and write the page."""
    arguments = _arguments()
    if not arguments.report_only:
        if arguments.data is None:
            raise SystemExit("No measured tables: name their folder with --data or PERFMODEL_DATA.")
        known = Results.read(arguments.results) if arguments.results.exists() else Results()
        for name in arguments.stream or STREAMS:
            started = time.process_time()
            replayed = run_stream(
                name, arguments.data, fast=arguments.fast, evidence=arguments.evidence,
                captures=arguments.captures, progress=_tell,
            )  # fmt: skip
            spent = time.process_time() - started
            _tell(f"{name}: {len(replayed.devices)} arrivals in {spent:.0f} processor s")
            known = known.joined(name, replayed, note=arguments.note)
            known.write(arguments.results)
    write_page(Results.read(arguments.results), arguments.out)
    print(f"{arguments.out} written")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    stated = os.environ.get("PERFMODEL_DATA")
    parser.add_argument("--data", type=Path, default=Path(stated) if stated else None)
    parser.add_argument("--fast", action="store_true", help="few networks, few arrivals")
    parser.add_argument(
        "--stream", action="append", choices=STREAMS, help="only this again; repeatable"
    )
    parser.add_argument(
        "--no-evidence", dest="evidence", action="store_false",
        help="do not ask with observations, which captures the graph of every job",
    )  # fmt: skip
    parser.add_argument(
        "--no-captures", dest="captures", action="store_false",
        help="leave out jobs that were never captured on this machine",
    )  # fmt: skip
    parser.add_argument("--note", default="", help="a sentence about this run, for the page")
    parser.add_argument("--report-only", action="store_true", help="write the page again")
    parser.add_argument("--results", type=Path, default=Path("build/closed-loop/results.json"))
    parser.add_argument("--out", type=Path, default=Path("docs/closed-loop.md"))
    return parser.parse_args()


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
