"""Write Gavel's table of throughputs: what was measured as it is, the rest predicted.

python examples/gavel/export_table.py http://127.0.0.1:8000 examples/gavel/jobs.json out.json

A fourth word is a file of measured rates, in the form of the table; any part of it will do.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfmodel.adapters.ask import Service
from perfmodel.adapters.gavel import GavelJob, read_rates, throughput_table
from perfmodel.adapters.gavel_jobs import gavel_jobs


def jobs_of(told: Mapping[str, Any]) -> list[GavelJob]:
    """Return the jobs of a file: those of Gavel's own table by their names, others as they say."""
    found = []
    for one in told["jobs"]:
        [job] = gavel_jobs([one["job_type"]], tuple(one["scale_factors"]))
        if "job" in one:
            job = GavelJob(job_type=job.job_type, job=one["job"], scale_factors=job.scale_factors)
        found.append(job)
    return found


def main(url: str, wanted: str, out: str, measured: str | None = None) -> None:
    told = json.loads(Path(wanted).read_text())
    table = throughput_table(
        Service(url, timeout_s=120.0),
        jobs_of(told),
        told["worker_types"],
        per_host=told["accelerators_per_host"],
        observed=None if measured is None else read_rates(Path(measured)),
    )
    table.write(Path(out))
    for entry in table.unanswered:
        print(f"no answer: {entry}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
