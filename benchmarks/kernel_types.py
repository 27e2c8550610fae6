"""How far the law of products is off on operators and types that it was not fitted to.

`POST /v1/kernels` answers a product in a type that no table has by the law of its group alone. Here
each operator and type is left out of the fit in turn, both types of 16 bits together, and asked
beside the roofline over a typical efficiency. The last line is what the interval of such answers
rests on: the 90 % quantile of the error's logarithm, every operator and type counting the same.

Run: ``python benchmarks/kernel_types.py`` (half a minute)
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from accuracy_report.markdown import percent, table

from perfmodel.features.arrays import FloatArray, IntArray, StrArray
from perfmodel.intervals import COVERAGE
from perfmodel.predictors.kernels.kernel_base import KernelBase, PreparedCalls, kernel_group
from perfmodel.predictors.kernels.kernel_times import AnalyticalKernels
from perfmodel.training.samples.measured_kernels import MeasuredCalls, measured_calls
from perfmodel.training.samples.public_data import KERNEL_FORMATS, read_formats

#: Calls of an operator and type on a device.
_CALLS = 300
#: Fewest calls that are judged.
_LEAST = 100
_MAKER = "NVIDIA"


@dataclass(frozen=True, kw_only=True)
class _LeftOut:
    """Logarithms of predicted over measured times of what was left out."""

    kind: str
    devices: int
    by_law: FloatArray
    typical: FloatArray


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("PERFMODEL_DATA"))
    given = parser.parse_args()
    if given.data is None:
        parser.error("name the folder of tables with --data or PERFMODEL_DATA")
    imported = read_formats(Path(given.data), KERNEL_FORMATS).values()
    measured = _products(measured_calls([one for each in imported for one in each.kernels]))
    kind = _kinds(measured)
    found = [_left_out(measured, kind, word) for word in np.unique(kind).tolist()]
    judged = [one for one in found if one is not None]
    rows = [
        [one.kind, str(len(one.by_law)), str(one.devices), *_off(one.by_law), *_off(one.typical)]
        for one in judged
    ]
    header = ["left out", "calls", "devices", "law", "median ratio", "roofline", "median ratio"]
    print("\n".join(table(header, rows, left=1)))
    print(f"\nhalf width: {_half_width([one.by_law for one in judged]):.2f}")


def _products(measured: MeasuredCalls) -> MeasuredCalls:
    """Return products on devices of one maker, equally many of each operator, type and device."""
    calls = measured.calls
    group = np.char.startswith(kernel_group(calls), "product")
    rows = np.flatnonzero(group & (calls.maker_names == _MAKER))
    rows = np.random.default_rng(0).permutation(rows)
    key = np.char.add(np.char.add(calls.op, calls.dtype), calls.device_names)[rows]
    kept = [rows[key == word][:_CALLS] for word in np.unique(key).tolist()]
    return measured.take(np.sort(np.concatenate(kept)).astype(np.int64))


def _kinds(measured: MeasuredCalls) -> StrArray:
    dtype = np.where(
        np.isin(measured.calls.dtype, ("fp16", "bf16")), "16 bits", measured.calls.dtype
    )
    return np.char.add(np.char.add(measured.calls.op, " "), dtype)


def _left_out(measured: MeasuredCalls, kind: StrArray, word: str) -> _LeftOut | None:
    group, own = kernel_group(measured.calls), np.flatnonzero(kind == word)
    learned: IntArray = np.flatnonzero((group == group[own[0]]) & (kind != word))
    if len(own) < _LEAST or len(learned) < _LEAST:
        return None
    train, test = measured.take(learned), measured.take(own)
    base = KernelBase().fit(PreparedCalls.of(train.calls), train.time_s)
    asked = replace(test.calls, kernel=np.full(len(test), "", dtype="<U1"))
    typical_s = AnalyticalKernels().times(asked).time_s
    return _LeftOut(
        kind=word,
        devices=len(np.unique(test.calls.device)),
        by_law=np.log(base.parts(PreparedCalls.of(asked)).time_s / test.time_s),
        typical=np.log(typical_s / test.time_s),
    )


def _off(logs: FloatArray) -> tuple[str, str]:
    return percent(float(np.abs(np.expm1(logs)).mean())), f"{np.exp(np.median(logs)):.2f}"


def _half_width(found: list[FloatArray]) -> float:
    errors = np.abs(np.concatenate(found))
    weight = np.concatenate([np.full(len(one), 1.0 / len(one)) for one in found])
    order = np.argsort(errors)
    place = np.searchsorted(np.cumsum(weight[order]), COVERAGE * weight.sum())
    return float(errors[order][place])


if __name__ == "__main__":
    main()
