"""Programs that need Ray, run by an interpreter that has it."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foreign_venv import python_with

ROOT = Path(__file__).resolve().parents[1]

#: May name an interpreter that has Ray.
INTERPRETER = "PERFMODEL_RAY_PYTHON"


def told_by(
    program: Path,
    *arguments: object,
    environment: Mapping[str, str] | None = None,
    patience_s: float = 400,
) -> Any:
    """Run a program and return the JSON of the last line that it printed."""
    constraints = str(ROOT / "constraints.txt")
    python = python_with("ray", INTERPRETER, ["-c", constraints, "ray>=2.9"])
    # Ray's own packages come first, what the project needs besides from here.
    paths = [ROOT, ROOT / "tests", sysconfig.get_paths()["purelib"]]
    ran = subprocess.run(
        [python, program, *map(str, arguments)],
        env={
            **os.environ, "PYTHONPATH": ":".join(map(str, paths)),
            "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "RAY_USAGE_STATS_ENABLED": "0",
            # A busy machine is no dead one.
            "RAY_worker_register_timeout_seconds": "300", "RAY_raylet_start_wait_time_s": "300",
            "RAY_gcs_rpc_server_reconnect_timeout_s": "300",
            "RAY_health_check_failure_threshold": "30",
            **(environment or {}),
        },
        capture_output=True, text=True, check=False, timeout=patience_s,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout.splitlines()[-1])
