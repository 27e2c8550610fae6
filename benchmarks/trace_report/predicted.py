"""Predicted beside traced times of operators, per device and class of operator.

Nothing of a trace is learned from: the installed model answers, whose training data are those of
the accuracy report. Traced is the device time of a call, without gaps between kernels, where
nothing else ran on the device meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from accuracy_report.kept_sections import TRACES
from accuracy_report.markdown import percent, table

from perfmodel.errors import InvalidTraceError
from perfmodel.estimator.kernels.loading import load_kernels
from perfmodel.estimator.single.compared_operators import operator_call, predict_operators
from perfmodel.estimator.single.loading import load_model
from perfmodel.traces.analysis.explanation import explain_trace
from perfmodel.traces.analysis.operators import TracedOperator
from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.trace import Trace

#: Of shorter calls much is launch.
LONG_S = 20e-6
#: What older traces count in.
SHORTEST_S = 1e-6


@dataclass(frozen=True, kw_only=True)
class PredictedCall:
    """One operator of one trace."""

    file: str
    accelerator: str
    op_class: str
    calls: int
    traced_s: float
    predicted_s: float
    low_s: float
    high_s: float

    @property
    def ratio(self) -> float:
        """Predicted over traced."""
        return self.predicted_s / self.traced_s

    @property
    def inside(self) -> bool:
        """Whether the traced time lies in the interval."""
        return self.low_s <= self.traced_s <= self.high_s


def predicted_calls(files: Sequence[Path], models: Path) -> list[PredictedCall]:
    """Return every priced operator of traces whose device is in the catalogue."""
    model, (kernels, _) = load_model(models).model, load_kernels(models)
    found = []
    for file in files:
        try:
            trace = read_trace(file)
            explained = explain_trace(trace)
        except InvalidTraceError:
            continue
        spec, cut_s = explained.accelerator, _cut_s(trace)
        priced = [
            (one, call)
            for one in explained.operators
            if (call := operator_call(one)) is not None
            and one.operator.kernels
            and one.operator.alone_s is not None
            and one.operator.alone_s >= SHORTEST_S
        ]
        if spec is None or not priced:
            continue
        answers = predict_operators(model, [call for _, call in priced], spec, kernels)
        for (one, _), answer in zip(priced, answers, strict=True):
            found.append(
                PredictedCall(
                    file=f"{file.parent.name}/{file.name}",
                    accelerator=spec.name,
                    op_class=one.operator.op_class,
                    calls=one.operator.calls,
                    traced_s=_traced_s(one.operator, cut_s),
                    predicted_s=answer.time_s,
                    low_s=answer.low_s,
                    high_s=answer.high_s,
                )
            )
    return found


def _cut_s(trace: Trace) -> float:
    """Return what durations of kernels lack on average where they were cut off to microseconds."""
    whole = trace.kernels.duration_ns % 1000 == 0
    return 0.5e-6 if len(whole) and bool(whole.all()) else 0.0


def _traced_s(operator: TracedOperator, cut_s: float) -> float:
    assert operator.alone_s is not None
    return operator.alone_s + cut_s * operator.kernels / operator.calls


def traces_section(calls: Sequence[PredictedCall], command: str) -> str:
    """Return the section of docs/accuracy.md."""
    return "\n".join(_lines(calls, command))


def _lines(calls: Sequence[PredictedCall], command: str) -> Iterator[str]:
    yield from (TRACES, "")
    files = len({call.file for call in calls})
    yield (
        f"Written by `{command}`. Operators of {files} public traces of torch.profiler, on devices "
        "that nobody here could profile; nothing of them was learned from. Each different call "
        "(operator, shapes, types) of a trace is one row; traced is the mean device time of those "
        "calls that had the device for themselves (calls that never had are left out), predicted "
        "what the installed model of kernels says, where it learned such kernels on several "
        "devices of the maker (of products in other types their law), else what that of steps says "
        "of the operator alone, but of those that move, sum or normalise their operands no more "
        "than typical kernels take, with a wait for each sum. Older torch cut durations off to "
        "whole microseconds (`ns / 1000` in Kineto): half of one is added for each kernel; calls "
        "below one are left out. "
        "Time over time sums all calls of a class. Not blind: that backward calls are asked as "
        "inference, as operators alone were learned, which classes only move and how often sums "
        "and norms wait, that operands that lie unlike stream slower, and between what a launch by "
        "a device lies, was chosen after a look at both; how long launch and wait take was not "
        "(Vidur's table), nor how far the law of products is off (types left out)."
    )
    yield ""
    groups: dict[tuple[str, str], list[PredictedCall]] = defaultdict(list)
    for call in calls:
        groups[call.accelerator, "all"].append(call)
        groups[call.accelerator, call.op_class].append(call)
    header = ["device", "class", "rows", "traced", "time over time", "median ratio", "MAPE",
              "20 us and more", "MAPE", "in interval"]  # fmt: skip
    yield from table(
        header, [_row(*key, members) for key, members in sorted(groups.items())], left=2
    )


def _row(accelerator: str, op_class: str, calls: Sequence[PredictedCall]) -> list[str]:
    traced_s = sum(call.traced_s * call.calls for call in calls)
    predicted_s = sum(call.predicted_s * call.calls for call in calls)
    long = [call for call in calls if call.traced_s >= LONG_S]
    return [
        accelerator,
        op_class,
        str(len(calls)),
        f"{1e3 * traced_s:.3g} ms",
        f"{predicted_s / traced_s:.2f}",
        f"{np.median([call.ratio for call in calls]):.2f}",
        percent(_mape(calls)),
        str(len(long)),
        percent(_mape(long)) if long else "-",
        percent(float(np.mean([call.inside for call in calls]))),
    ]


def _mape(calls: Sequence[PredictedCall]) -> float:
    return float(np.mean([abs(call.ratio - 1.0) for call in calls]))
