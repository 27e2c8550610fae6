"""The service as a process: ready, answering, ending."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from pathlib import Path

from bounded_time import bounded_s
from service_process import service_process


def test_the_service_is_ready_within_five_seconds_and_ends_cleanly(tmp_path: Path) -> None:
    names = itertools.count()

    def ready_after_s() -> float:
        folder = tmp_path / f"{next(names)}"
        folder.mkdir()
        models = str(folder / "models")
        began = time.monotonic()
        with service_process(f"sqlite:///{folder}/a.db", folder, models=models) as (process, here):
            taken_s = time.monotonic() - began
            assert here.ask("/v2/health/ready") == {"status": "ready", "detail": []}
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 0
        return taken_s

    assert bounded_s(ready_after_s, within_s=5.0) < 5.0


def test_starting_loads_no_torch() -> None:
    code = "import sys, service.serve; print('torch' in sys.modules, 'xgboost' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]
