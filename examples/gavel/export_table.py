"""Write Gavel's table of throughputs: what was measured as it is, the rest predicted.

python examples/gavel/export_table.py http://127.0.0.1:8000 examples/gavel/jobs.json out.json

A fourth word is a file of measured rates, in the form of the table; any part of it will do. Jobs
that were measured are in the table too, named or not.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfmodel.adapters.ask import Service
from perfmodel.adapters.gavel import GavelJob, read_rates, throughput_table
from perfmodel.adapters.gavel_jobs import gavel_jobs
from perfmodel.adapters.measured.gavel_rates import Table


def jobs_of(told: Mapping[str, Any], measured: Table) -> list[GavelJob]:
    """Return the jobs of a file: those of Gavel's own table by their names, others as they say.

    After them come those that were measured alone, and all have the numbers of accelerators that
    they were measured on.
    """
    scales = {one["job_type"]: set(one["scale_factors"]) for one in told["jobs"]}
    for jobs in measured.values():
        for key, partners in jobs.items():
            for job_type, scale in (key, *(one for one in partners if not isinstance(one, str))):
                scales.setdefault(job_type, set()).add(scale)
    forms = {one["job_type"]: one["job"] for one in told["jobs"] if "job" in one}
    found = []
    for job_type, counts in scales.items():
        [job] = gavel_jobs([job_type], tuple(sorted(counts)))
        if job_type in forms:
            job = GavelJob(job_type=job_type, job=forms[job_type], scale_factors=job.scale_factors)
        found.append(job)
    return found


def main(url: str, wanted: str, out: str, measured: str | None = None) -> None:
    told = json.loads(Path(wanted).read_text())
    observed = {} if measured is None else read_rates(Path(measured))
    table = throughput_table(
        Service(url, timeout_s=120.0),
        jobs_of(told, observed),
        told["worker_types"],
        per_host=told["accelerators_per_host"],
        observed=observed,
    )
    table.write(Path(out))
    for entry in table.unanswered:
        print(f"no answer: {entry}", file=sys.stderr)


if __name__ == "__main__":
    # What the answers rest on, as networks that were assumed, goes to standard error.
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(*sys.argv[1:])
