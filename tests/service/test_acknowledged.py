"""An observation that the service acknowledged is there after the service was killed."""

from __future__ import annotations

from pathlib import Path

from service_process import service_process

JOB = {"job_type": "click-rates", "mode": "training", "batch_size": 512}


def test_acknowledged_observations_are_answered_after_a_kill(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    with service_process(url, tmp_path) as (process, service):
        for key in ("a", "b"):
            sent = {"job": JOB, "placement": "8xT4", "step_time_s": 0.2, "key": key}
            assert service.ask("/v1/observations", [sent])["accepted"] == 1
        process.kill()  # SIGKILL: nothing is written on the way out
    with service_process(url, tmp_path) as (_, service):
        listed = service.ask("/v1/observations")["observations"]
    assert [seen["key"] for seen in listed] == ["b", "a"]
