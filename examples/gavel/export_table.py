"""Write Gavel's table of throughputs from predictions.

python examples/gavel/export_table.py http://127.0.0.1:8000 examples/gavel/jobs.json out.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from perfmodel.adapters.ask import Service
from perfmodel.adapters.gavel import GavelJob, throughput_table


def main(url: str, wanted: str, out: str) -> None:
    told = json.loads(Path(wanted).read_text())
    jobs = [
        GavelJob(
            job_type=one["job_type"], job=one["job"], scale_factors=tuple(one["scale_factors"])
        )
        for one in told["jobs"]
    ]
    table = throughput_table(
        Service(url, timeout_s=120.0),
        jobs,
        told["worker_types"],
        per_host=told["accelerators_per_host"],
    )
    table.write(Path(out))
    for entry in table.unanswered:
        print(f"no answer: {entry}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
