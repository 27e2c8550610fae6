"""The benchmark's scenarios: a policy, its cluster and traces, and every table that it may see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from cluster_simulation.goodput_planner import GoodputPlanner
from cluster_simulation.goodput_rates import MeasuredGoodput, StepTable, measured_steps
from cluster_simulation.policies import POLICIES, Policy, SharingPlanner
from cluster_simulation.rates import MeasuredRates, Rates
from cluster_simulation.rounds import Outcome, simulate
from cluster_simulation.traces import GoodputTraceForm, TraceForm, at_once
from regret_report import seen_rates, seen_steps
from regret_report.repairs import repaired, with_typical_kinds
from regret_report.seen_rates import BLIND, NOTHING, ORACLE
from regret_report.step_repairs import repaired_steps

from perfmodel.estimator import Estimator

#: Accelerators of each kind: of Gavel's table, and of Sia's by cluster.
SHARED = {"k80": 12, "v100": 12}
CHOSEN = {"aws": 16, "rtx": 16, "azure": 8, "dgx": 8}
#: Drawn so that, seen by the oracle, 70 to 90 % of the accelerators are busy.
SHARED_TRACES = TraceForm(jobs=150, per_hour=1.0)
CHOSEN_TRACES = GoodputTraceForm(jobs=100, per_hour=5.5)
#: In the short form.
FEW_JOBS = 60


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One policy.

    Parameters
    ----------
    by_makespan : bool
        Judged by the makespan, not by the average completion time.
    tables : sequence of str
        What it may see.
    run : callable
        From the name of a table and a seed to what comes of it.
    """

    name: str
    title: str
    by_makespan: bool
    tables: Sequence[str]
    run: Callable[[str, int], Outcome]


def sharing_tables(data: Path, estimator: Estimator) -> dict[str, Rates]:
    """Return every table of rates, the measured one as ``oracle``."""
    measured = seen_rates.measured_rates(data)
    return {
        ORACLE: measured,
        BLIND: seen_rates.blind_rates(measured),
        **{
            one.name: seen_rates.predicted_rates(estimator, measured, one)
            for one in seen_rates.PREDICTED
        },
    }


def goodput_tables(data: Path, estimator: Estimator) -> dict[str, StepTable]:
    """Return every table of steps, the measured one as ``oracle``."""
    measured = measured_steps(data, CHOSEN)
    return {
        ORACLE: measured,
        BLIND: seen_steps.blind_steps(measured),
        **{
            one.name: seen_steps.predicted_steps(estimator, measured, one)
            for one in seen_steps.PREDICTED
        },
    }


def sharing_scenarios(tables: Mapping[str, Rates], traces: TraceForm) -> list[Scenario]:
    """Return the policies that share time; what only concerns pairs is for packing alone."""
    # As the exporter completes what was predicted.
    usable = {
        name: table.usable() if name in (ORACLE, BLIND) else with_typical_kinds(table)
        for name, table in tables.items()
    }
    return [
        Scenario(
            name=policy.name,
            title=policy.title,
            by_makespan=policy.at_once,
            tables=[name for name in usable if policy.pairs or name != seen_rates.ALL_BUT_PAIRS],
            run=_sharing(policy, tables[ORACLE], usable, traces),
        )
        for policy in POLICIES
    ]


def _sharing(
    policy: Policy, measured: Rates, usable: Mapping[str, Rates], traces: TraceForm
) -> Callable[[str, int], Outcome]:
    capacity = list(SHARED.values())

    def run(name: str, seed: int) -> Outcome:
        trace = traces.draw(measured, seed)
        if policy.at_once:
            trace = at_once(trace)
        planner = SharingPlanner(policy, usable[name], trace, capacity)
        truth = MeasuredRates(table=measured, subjects=[job.subject for job in trace])
        return simulate(trace, capacity, planner, truth)

    return run


def repair_scenarios(tables: Mapping[str, Rates], traces: TraceForm) -> list[Scenario]:
    """Return the policies of jobs alone with parts of the predicted table made right."""
    seen = tables[NOTHING]
    usable = repaired(with_typical_kinds(seen), tables[ORACLE])
    usable["jobs without an answer, equal on all kinds"] = seen.usable()
    return [
        Scenario(
            name=policy.name,
            title=policy.title,
            by_makespan=policy.at_once,
            tables=list(usable),
            run=_sharing(policy, tables[ORACLE], usable, traces),
        )
        for policy in POLICIES
        if not policy.pairs
    ]


def goodput_scenario(tables: Mapping[str, StepTable], traces: GoodputTraceForm) -> Scenario:
    """Return the policy that chooses configurations."""
    measured = tables[ORACLE]
    clusters, capacity = list(CHOSEN), list(CHOSEN.values())
    kinds = [clusters.index(one.cluster) for one in measured.configurations]
    accelerators = [one.accelerators for one in measured.configurations]
    goodput = {name: table.goodput() for name, table in tables.items()}
    singles = goodput[ORACLE].max(axis=2)[:, np.array(accelerators) == 1]

    def run(name: str, seed: int) -> Outcome:
        trace = traces.draw(singles, seed)
        planner = GoodputPlanner(goodput[name], kinds, accelerators, trace, capacity)
        truth = MeasuredGoodput(goodput=goodput[ORACLE], subjects=[job.subject for job in trace])
        return simulate(trace, capacity, planner, truth)

    return Scenario(
        name="goodput",
        title="Goodput, kinds and counts chosen",
        by_makespan=False,
        tables=list(tables),
        run=run,
    )


def goodput_repair_scenario(tables: Mapping[str, StepTable], traces: GoodputTraceForm) -> Scenario:
    """Return the policy that chooses configurations, parts of the predicted table made right."""
    parts = repaired_steps(tables[NOTHING], tables[ORACLE])
    return replace(goodput_scenario({**tables, **parts}, traces), tables=list(parts))


#: Knowledge of which the targets speak, by name.
TARGETS = {
    one.name: one.target
    for one in (*seen_rates.PREDICTED, *seen_steps.PREDICTED)
    if one.target is not None
}
#: Beside blind scheduling, for what nothing was observed of.
BESIDE_BLIND = {NOTHING: 0.97}
