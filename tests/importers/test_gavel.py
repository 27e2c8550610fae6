from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfmodel.errors import StoreError
from perfmodel.importers.jobs.gavel_throughputs import read_gavel
from perfmodel.importers.published import Imported
from perfmodel.placement.topology.topology import Neighbour, Node


def _read(folder: Path, table: object) -> Imported:
    (folder / "simulation_throughputs.json").write_text(json.dumps(table))
    return read_gavel(folder)


def _key(name: str, batch: int, accelerators: int) -> str:
    return str((f"{name} (batch size {batch})", accelerators))


def test_alone_on_one_accelerator_is_a_step(tmp_path: Path) -> None:
    imported = _read(tmp_path, {"k80": {_key("ResNet-50", 24, 1): {"null": 2.0}}})
    (step,) = imported.steps
    assert step.samples_per_second == 48.0  # 24 samples, twice a second
    assert step.job.model == "zoo/resnet50-v1.5" and step.accelerator == "K80"
    assert imported.placements[0].step_time_s == 0.5


def test_the_steps_of_all_workers_are_counted(tmp_path: Path) -> None:
    # Four workers, each two steps a second, were written down as eight.
    (record,) = _read(tmp_path, {"v100": {_key("LM", 10, 4): {"null": 8.0}}}).placements
    assert record.step_time_s == 0.5
    assert record.placement.nodes == (Node(accelerator="V100-SXM2-16GB", count=4),)


def test_unconsolidated_workers_have_a_host_each(tmp_path: Path) -> None:
    table = {"k80_unconsolidated": {_key("ResNet-18", 16, 2): {"null": 4.0}}}
    (record,) = _read(tmp_path, table).placements
    assert record.placement.host_count == 2 and record.placement.accelerator_count == 2


def test_a_pair_shares_its_accelerator(tmp_path: Path) -> None:
    partner = _key("Transformer", 32, 1)
    imported = _read(tmp_path, {"v100": {_key("ResNet-18", 16, 1): {partner: [5.0, 3.0]}}})
    (record,) = imported.placements
    assert record.placement.shared_with == (Neighbour(job_type="Transformer (batch size 32)"),)
    assert record.step_time_s == 0.2 and not imported.steps


def test_jobs_without_a_graph_keep_their_name(tmp_path: Path) -> None:
    imported = _read(tmp_path, {"v100": {"('A3C', 1)": {"null": 5.0}}})
    assert [record.job for record in imported.placements] == [None]
    assert [r.job_type for r in imported.placements] == ["A3C"]
    assert not imported.steps


@pytest.mark.parametrize(
    ("worker", "job", "partner", "rate", "reason"),
    [
        ("tpu", _key("LM", 5, 1), "null", 1.0, "unknown worker type"),
        ("k80", _key("Chess", 5, 1), "null", 1.0, "unknown job type"),
        ("k80", "nonsense(", "null", 1.0, "no pair of job type"),
        ("k80", _key("LM", 5, 1), "null", 0.0, "did not run"),
        ("k80", _key("LM", 5, 1), _key("LM", 5, 1), [0.0, 0.0], "did not run"),
        ("k80", _key("LM", 5, 1), _key("LM", 5, 1), 2.0, "a pair of rates"),
        ("k80_unconsolidated", _key("LM", 5, 1), "null", 1.0, "cannot be spread"),
    ],
)
def test_entries_that_say_nothing_are_reported(
    tmp_path: Path, worker: str, job: str, partner: str, rate: object, reason: str
) -> None:
    imported = _read(tmp_path, {worker: {job: {partner: rate}}})
    assert not imported.placements
    assert imported.rejected[0].line == 1 and reason in imported.rejected[0].reason


def test_another_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no table"):
        _read(tmp_path, [1, 2])
