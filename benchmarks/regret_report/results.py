"""What came of every run, kept as JSON between running and reporting."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from cluster_simulation.rounds import FloatArray
from regret_report.scenarios import Scenario
from regret_report.seen_rates import BLIND, ORACLE

from perfmodel.predictors.folds import Progress


@dataclass(frozen=True, kw_only=True)
class PolicyResults:
    """All runs of one policy.

    Parameters
    ----------
    judged_h : mapping of str to list of float
        By table, a figure for each trace: average completion time, or the makespan, in hours.
    busy : list of float
        Share of accelerators in use under the oracle, for each trace; empty where all jobs arrive
        at once.
    """

    name: str
    title: str
    by_makespan: bool
    judged_h: Mapping[str, list[float]]
    busy: list[float] = field(default_factory=list)

    def hours(self, table: str) -> FloatArray:
        """Return the figures of a table."""
        return np.array(self.judged_h[table])

    def beside(self, table: str, other: str = ORACLE) -> tuple[float, float]:
        """Return the mean over traces of the ratio to another table, and its standard deviation."""
        ratio = self.hours(table) / self.hours(other)
        return float(ratio.mean()), float(ratio.std(ddof=1)) if len(ratio) > 1 else 0.0


@dataclass(frozen=True, kw_only=True)
class Results:
    """All runs.

    Parameters
    ----------
    facts : mapping
        Of the run: command, date, model, traces.
    repairs : sequence of PolicyResults
        With parts of the predicted table made right; empty in the short form.
    errors : mapping of str to list of mapping
        How wrong tables are, by the name of a table of the page.
    """

    facts: Mapping[str, Any]
    policies: Sequence[PolicyResults]
    repairs: Sequence[PolicyResults]
    errors: Mapping[str, list[dict[str, Any]]]

    def write(self, path: Path) -> None:
        """Keep everything in a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    def joined(self, before: Results) -> Results:
        """Return these results, and those of policies that only an earlier run has.

        Raises
        ------
        ValueError
            The earlier run was on other traces.
        """
        if any(self.facts[fact] != before.facts[fact] for fact in ("traces", "jobs")):
            raise ValueError(
                f"The kept results are of {before.facts['traces']} traces of {before.facts['jobs']}"
                f" jobs, these of {self.facts['traces']} of {self.facts['jobs']}; run all policies."
            )
        return replace(
            self,
            facts={**self.facts, "minutes": before.facts["minutes"]},
            policies=_later(self.policies, before.policies),
            repairs=_later(self.repairs, before.repairs),
        )

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read what :meth:`write` wrote."""
        read = json.loads(path.read_text())
        for name in ("policies", "repairs"):
            read[name] = [PolicyResults(**one) for one in read[name]]
        return cls(**read)


def _later(
    policies: Sequence[PolicyResults], before: Sequence[PolicyResults]
) -> list[PolicyResults]:
    """Return the policies of both runs in the order of the earlier one, new ones at the end."""
    found = {one.name: one for one in before}
    return list((found | {one.name: one for one in policies}).values())


def run_scenario(
    scenario: Scenario,
    seeds: Sequence[int],
    progress: Progress | None = None,
    known: Mapping[str, list[float]] = MappingProxyType({}),
) -> PolicyResults:
    """Run a policy with every table on every trace.

    Parameters
    ----------
    known : mapping of str to list of float
        What other tables came to on the same traces.
    """
    judged, busy = dict(known), list[float]()
    for table in scenario.tables:
        outcomes = [scenario.run(table, seed) for seed in seeds]
        judged[table] = [
            (one.makespan_s if scenario.by_makespan else one.average_s) / 3600 for one in outcomes
        ]
        if table == ORACLE and not scenario.by_makespan:
            busy = [one.busy for one in outcomes]
    found = PolicyResults(
        name=scenario.name,
        title=scenario.title,
        by_makespan=scenario.by_makespan,
        judged_h=judged,
        busy=busy,
    )
    if progress is not None:
        for table in scenario.tables:
            ratio, spread = found.beside(table)
            progress(
                f"{scenario.title}, {table}: {found.hours(table).mean():.1f} h, {ratio:.3f} of the "
                f"oracle's (+- {spread:.3f}), {found.beside(table, BLIND)[0]:.3f} of blind"
            )
    return found
