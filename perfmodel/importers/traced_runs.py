"""Which traces of ranks were recorded in one run, so that their steps are one record.

Ranks of a run wait for each other: each of their step times is that of the run. Steps of another
run on the same accelerators are another record, whatever files are named together. So traces are of
one run only where nothing that they tell contradicts it: their ranks, how many there are, releases,
and the time at which they were recorded.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from perfmodel.importers.published import PublishedPlacement
from perfmodel.traces.trace import Trace

#: Hosts of one run may have different drivers.
_OF_THE_HOST = frozenset({"cuda_driver", "hip_driver", "driver"})
#: By how much clocks of the hosts of a cluster differ at most; between two runs there is more.
_CLOCKS_APART_NS = 10**9


@dataclass(frozen=True, kw_only=True, slots=True)
class RankStep:
    """The step of one rank, with what tells its run.

    Parameters
    ----------
    begun_ns, ended_ns : int or None
        Unix time of the recording.
    """

    step: PublishedPlacement
    rank: int | None
    world_size: int | None
    trace_id: str
    software: frozenset[tuple[str, str]]
    begun_ns: int | None
    ended_ns: int | None

    @property
    def name(self) -> str:
        """Return how messages name it."""
        rank = "no rank" if self.rank is None else f"rank {self.rank}"
        return f"{self.step.origin.file} ({rank})"


def rank_step(step: PublishedPlacement, trace: Trace) -> RankStep:
    """Return the step of a trace with what the trace tells of its run."""
    begun_ns = trace.begun_ns
    return RankStep(
        step=step,
        rank=trace.rank,
        world_size=trace.world_size,
        trace_id=trace.trace_id,
        software=frozenset(
            (name, version) for name, version in trace.software.items() if name not in _OF_THE_HOST
        ),
        begun_ns=begun_ns,
        ended_ns=None if begun_ns is None else begun_ns + trace.span_ns,
    )


def runs_of(steps: Iterable[RankStep]) -> tuple[tuple[RankStep, ...], ...]:
    """Return steps by the run that they are of, in the order of the first of each.

    A step joins the run whose recording it shared longest, among those that it does not contradict.
    """
    runs: list[list[RankStep]] = []
    for step in steps:
        open_to_it = [run for run in runs if not any(_apart(step, other) for other in run)]
        if open_to_it:
            max(open_to_it, key=lambda run: _shared_ns(step, run[0])).append(step)
        else:
            runs.append([step])
    return tuple(map(tuple, runs))


def record_of(run: Sequence[RankStep]) -> PublishedPlacement:
    """Return the record of a run: its ranks wait for each other, their median counts."""
    median_s = statistics.median(one.step.step_time_s for one in run)
    return replace(run[0].step, step_time_s=median_s)


def told_of_runs(runs: Sequence[Sequence[RankStep]]) -> tuple[str, ...]:
    """Return, a sentence each, which traces were taken for one run, and which were not and why."""
    found = []
    for number, run in enumerate(runs):
        names = ", ".join(one.name for one in run)
        times_s = [one.step.step_time_s for one in run]
        if len(run) > 1:
            found.append(
                f"One run, whose record is the median of its ranks: {names}, with steps of "
                f"{1e3 * min(times_s):.4g} to {1e3 * max(times_s):.4g} ms."
            )
        elif number:
            why = next(filter(None, (_apart(run[0], other) for other in runs[0])), "")
            found.append(f"A run of its own: {names}, since {why}.")
    return tuple(found)


def _apart(one: RankStep, other: RankStep) -> str:
    """Return why two ranks are of different runs; empty where nothing says so."""
    if one.rank is None or other.rank is None:
        return "a trace that tells no rank may be of any run"
    if one.rank == other.rank:
        return f"rank {one.rank} is that of {other.name} as well"
    if None not in (one.world_size, other.world_size) and one.world_size != other.world_size:
        return f"it has {one.world_size} ranks and {other.name} {other.world_size}"
    if one.trace_id and one.trace_id == other.trace_id:
        return ""
    if changed := _changed(one, other):
        return f"it ran {changed[0]} and {other.name} {changed[1]}"
    return _not_at_once(one, other)


def _changed(one: RankStep, other: RankStep) -> tuple[str, str] | None:
    """Return the first program of which two ranks tell different releases."""
    theirs = dict(other.software)
    for name, version in sorted(one.software):
        if theirs.get(name, version) != version:
            return f"{name} {version}", theirs[name]
    return None


def _not_at_once(one: RankStep, other: RankStep) -> str:
    apart_ns = -_shared_ns(one, other)
    if apart_ns <= _CLOCKS_APART_NS:
        return ""
    return f"{apart_ns / 1e9:.4g} s lie between it and {other.name}"


def _shared_ns(one: RankStep, other: RankStep) -> int:
    """Return for how long two recordings went on at once; negative is the time between them."""
    if one.begun_ns is None or other.begun_ns is None:
        return 0
    assert one.ended_ns is not None and other.ended_ns is not None
    return min(one.ended_ns, other.ended_ns) - max(one.begun_ns, other.begun_ns)
