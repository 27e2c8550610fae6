"""Write docs/regret.md: what jobs lose when a cluster is scheduled by predictions.

A simulated cluster runs made-up traces at measured rates, scheduled by five policies that see the
measured table, a table that knows nothing, or predictions with more and more of it measured:

- max-min fairness, least makespan, shortest job first and max-min fairness with pairs, of jobs with
  fixed accelerators, on 12 K80 and 12 V100 with the rates of Gavel's table. A trace has 150 jobs,
  one an hour on average (Poisson; for the makespan all at once), on 1, 2, 4 or 8 accelerators (70,
  10, 15, 5 %), of any job type measured on so many, as long as 10^x minutes on the kind that it
  runs on best: x uniform on 1.5 to 3 for 80 % of them, on 3 to 4 for the others, as in Gavel;
- goodput, which chooses kind and count, on 16 T4, 16 RTX 2080 Ti, 8 V100 and 8 A100 with the steps
  of Sia's tables. A trace has 100 jobs, 5.5 an hour, of any application, as long as 10^x hours on
  one accelerator of the slowest kind, x uniform on 0 to 1.7.

Ten traces each, of seeds 0 to 9; rounds of six minutes. Public tables come from ``--data`` or
PERFMODEL_DATA. Some of the constants that are shipped have learned from these very tables, which
flatters them; the page says where.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from cluster_simulation.policies import POLICIES
from regret_report import scenarios
from regret_report.page import write_page
from regret_report.results import Results, run_scenario
from regret_report.seen_rates import BLIND, NOTHING, ORACLE
from regret_report.table_errors import (
    application_errors,
    family_errors,
    goodput_errors,
    sharing_errors,
)

from perfmodel.estimator import Estimator

TRACES, FEW_TRACES = 10, 2
POLICY_NAMES = (*(policy.name for policy in POLICIES), "goodput")


def main() -> None:
    arguments = _arguments()
    if (arguments.report_only or arguments.policy) and not arguments.results.is_file():
        raise SystemExit(f"{arguments.results} is not there: run all policies once to make it.")
    if not arguments.report_only:
        if arguments.data is None:
            raise SystemExit("No measured tables: name their folder with --data or PERFMODEL_DATA.")
        # Read first: what is missing is said before an hour has passed.
        known = Results.read(arguments.results) if arguments.policy else None
        results = run(arguments)
        results = results if known is None else results.joined(known)
        results.write(arguments.results)
    write_page(Results.read(arguments.results), arguments.out)
    print(f"{arguments.out} written")


def run(arguments: argparse.Namespace) -> Results:
    """Make all tables, and run all policies on all traces."""
    started = time.perf_counter()
    estimator = Estimator.from_folder(arguments.models)
    shared, chosen = scenarios.SHARED_TRACES, scenarios.CHOSEN_TRACES
    if arguments.fast:
        shared, chosen = (replace(one, jobs=scenarios.FEW_JOBS) for one in (shared, chosen))
    sharing = scenarios.sharing_tables(arguments.data, estimator)
    _tell(f"rates predicted after {time.perf_counter() - started:.0f} s")
    goodput = scenarios.goodput_tables(arguments.data, estimator)
    _tell(f"steps predicted after {time.perf_counter() - started:.0f} s")
    seeds = range(FEW_TRACES if arguments.fast else TRACES)
    judged = [
        *scenarios.sharing_scenarios(sharing, shared),
        scenarios.goodput_scenario(goodput, chosen),
    ]
    wanted = arguments.policy or [one.name for one in judged]
    policies = [run_scenario(one, seeds, _tell) for one in judged if one.name in wanted]
    parts = [
        *scenarios.repair_scenarios(sharing, shared),
        scenarios.goodput_repair_scenario(goodput, chosen),
    ]
    known = {
        one.name: {name: one.judged_h[name] for name in (ORACLE, BLIND, NOTHING)}
        for one in policies
    }
    repairs = [
        run_scenario(one, seeds, _tell, known[one.name])
        for one in ([] if arguments.fast else parts)
        if one.name in known
    ]
    measured, seen = sharing[ORACLE], sharing[NOTHING].usable()
    return Results(
        facts={
            "command": f"python benchmarks/regret.py{' --fast' if arguments.fast else ''}",
            "date": datetime.now(UTC).date().isoformat(),
            "model": estimator.model_version,
            "traces": len(seeds),
            "jobs": {"shared": shared.jobs, "chosen": chosen.jobs},
            "minutes": (time.perf_counter() - started) / 60,
        },
        policies=policies,
        repairs=repairs,
        errors={
            "sharing": sharing_errors(sharing),
            "families": family_errors(seen, measured),
            "goodput": goodput_errors(goodput),
            "applications": application_errors(goodput[NOTHING], goodput[ORACLE]),
        },
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    stated = os.environ.get("PERFMODEL_DATA")
    parser.add_argument("--data", type=Path, default=Path(stated) if stated else None)
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--fast", action="store_true", help="two traces of few jobs, no repairs")
    parser.add_argument(
        "--policy", action="append", choices=POLICY_NAMES,
        help="run only this again, beside the results there are; repeatable",
    )  # fmt: skip
    parser.add_argument("--report-only", action="store_true", help="write the page again")
    parser.add_argument("--results", type=Path, default=Path("build/regret/results.json"))
    parser.add_argument("--out", type=Path, default=Path("docs/regret.md"))
    return parser.parse_args()


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
