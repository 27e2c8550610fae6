"""Reporters who lie are named, and hardly move what is answered of the jobs of others."""

from __future__ import annotations

from drift_report.lying import JOBS_EACH, Reporters
from reported_service import Reported


def test_three_liars_of_ten_move_other_jobs_by_less_than_five_percent_and_are_named(
    reported: Reported,
) -> None:
    jobs = [
        {
            "model": "timm/resnet50",
            "model_kwargs": {"num_classes": 2 + number},
            "batch_size": 32,
            "mode": "training",
        }
        for number in range(JOBS_EACH * len(reported.tokens) + 4)
    ]
    reporters = Reporters(
        service=reported.client,
        tokens=reported.tokens,
        administrator=reported.administrator,
        machine="T4",
        jobs=jobs,
    )
    found = reporters.lie(0.3, seed=1)
    assert len(found.liars) == 3
    assert found.named == found.liars
    assert max(found.moved) < 0.05
