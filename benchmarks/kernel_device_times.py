"""How far the installed predictor of kernels is off on a table, with the host and without it.

Tables that time a kernel on the device know nothing of the host that launched it: `device_time_s`
of an answer is what they measured, `time_s` what a call takes that is timed from outside. Which
implementation ran is not told. A line for each operator, type and device, one for all of a kind.

Run: ``python benchmarks/kernel_device_times.py vidur`` (half a minute; name tables that it has not
learned from)
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
from accuracy_report.markdown import percent, table

from perfmodel.estimator.kernels.loading import load_kernels
from perfmodel.features.arrays import FloatArray
from perfmodel.predictors.kernels.kernel_base import kernel_group
from perfmodel.predictors.kernels.kernel_times import KernelTimes
from perfmodel.training.samples.measured_kernels import MeasuredCalls, measured_calls
from perfmodel.training.samples.public_data import read_formats

_MODELS = Path(__file__).resolve().parents[1] / "models"
#: Calls that are asked, drawn by chance.
_ASKED = 20_000


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="+", help="names of `perfmodel import`, such as vidur")
    parser.add_argument("--data", type=Path, default=os.environ.get("PERFMODEL_DATA"))
    parser.add_argument("--models", type=Path, default=_MODELS)
    given = parser.parse_args()
    if given.data is None:
        parser.error("name the folder of tables with --data or PERFMODEL_DATA")
    found = read_formats(Path(given.data), given.formats)
    measured = measured_calls([one for imported in found.values() for one in imported.kernels])
    chosen = np.random.default_rng(0).permutation(len(measured))[:_ASKED]
    measured = measured.take(np.sort(chosen))
    kernels, problems = load_kernels(given.models)
    if problems:
        parser.error("; ".join(problems))
    asked = replace(measured.calls, kernel=np.full(len(measured), "", dtype="<U1"))
    print(f"{kernels.version}, {len(measured)} calls of {', '.join(found)}\n")
    header = ["operators", "device", "calls", "time_s", "median ratio", "device_time_s",
              "median ratio"]  # fmt: skip
    print("\n".join(table(header, _lines(measured, kernels.times(asked)), left=2)))


def _lines(measured: MeasuredCalls, times: KernelTimes) -> list[list[str]]:
    calls, groups = measured.calls, kernel_group(measured.calls)
    rows: dict[tuple[str, str], list[int]] = defaultdict(list)
    words = zip(groups, calls.op, calls.dtype, calls.device_names, strict=True)
    for row, (group, op, dtype, device) in enumerate(words):
        rows[f"{op}, {dtype}", device].append(row)
        rows[f"all {group}", "all"].append(row)
    return [
        [
            *key,
            str(len(own)),
            *_off(times.time_s, measured, own),
            *_off(times.device_s, measured, own),
        ]
        for key, own in sorted(rows.items())
    ]


def _off(found: FloatArray, measured: MeasuredCalls, rows: list[int]) -> tuple[str, str]:
    ratio = found[rows] / measured.time_s[rows]
    return percent(float(np.abs(ratio - 1.0).mean())), f"{np.median(ratio):.2f}"


if __name__ == "__main__":
    main()
