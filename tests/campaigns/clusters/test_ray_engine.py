"""Workers on a real Ray cluster of two nodes, of which one is killed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from campaign_world import CampaignWorld, jobs
from migrated import migrated_sqlite
from ray_python import told_by

from perfmodel.campaigns.clusters.ray_engine import RayEngine, left_over
from perfmodel.campaigns.work import WorkOptions
from perfmodel.errors import MissingExtraError

CHILD = Path(__file__).with_name("ray_child.py")

TASKS = 8


def test_without_ray_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("perfmodel.campaigns.clusters.ray_engine.import_module", absent)
    engine = RayEngine(database="sqlite://", folder=tmp_path, options=WorkOptions())
    with pytest.raises(MissingExtraError, match="ray"):
        engine.run()


def test_what_no_node_could_measure_is_counted(tmp_path: Path) -> None:
    world = CampaignWorld(url=migrated_sqlite(tmp_path), folder=tmp_path)
    name = world.enter(jobs(2), accelerators=["gpu", "tpu"])
    assert left_over(world.connections, name) == {"gpu": 2, "tpu": 2}
    world.close()


def test_a_node_that_is_killed_loses_one_workload(tmp_path: Path) -> None:
    world = CampaignWorld(url=migrated_sqlite(tmp_path), folder=tmp_path)
    name = world.enter(jobs(TASKS))
    world.close()
    told = told_by(
        CHILD, world.url, tmp_path / "profiles", name,
        environment={
            "TOLD": str(tmp_path),
            # A dead node is known to be one within five seconds instead of ten; a busy machine
            # answers later than at once.
            "RAY_health_check_period_ms": "500", "RAY_health_check_timeout_ms": "2000",
            "RAY_health_check_failure_threshold": "3",
        },
    )  # fmt: skip
    tasks = world.tasks(name)
    assert world.states(name) == ["done"] * TASKS
    machines = Counter(str(task.machine).split("/")[0] for task in tasks)
    assert len(machines) == 2 and told["killed"] in machines
    # The one that ran on the killed node was begun again, by the other; all else once.
    again = [task for task in tasks if task.attempts == 2]
    assert [str(task.machine).startswith(told["killed"]) for task in again] == [False]
    begun = "".join(path.read_text() for path in tmp_path.glob("begun-*"))
    sizes = Counter(map(int, begun.split()))
    assert sizes == Counter({size: 1 for size in range(1, TASKS + 1)}) + Counter(
        task.job["batch_size"] for task in again
    )
    assert any("was lost" in text for text in told["said"])
    world.close()
