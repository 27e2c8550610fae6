"""Sia's CSVs and profiles, read back by the importer of the real ones."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from adapter_world import training

from perfmodel.adapters.ask import NoAnswerError, Service
from perfmodel.adapters.local import LocalAnswers
from perfmodel.adapters.sia import SiaCluster, SiaTable, steps
from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator
from perfmodel.importers.jobs.sia_traces import read_sia

AWS = SiaCluster(accelerator="T4", per_node=4, nodes=2, network="eth-50g")


@pytest.fixture(scope="module")
def table(estimator: Estimator) -> SiaTable:
    return steps(
        LocalAnswers(estimator),
        training("timm/small"),
        AWS,
        local_batch_sizes=[16, 64],
        placements=["1", "2", "4", "13", "44"],
    )


def test_the_importer_reads_the_placements(table: SiaTable, tmp_path: Path) -> None:
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "placements-aws.csv").write_text(table.placements_csv())
    read = read_sia(tmp_path)
    assert not read.rejected
    assert [(row.batch_size, row.step_time_s, row.sync_time_s) for row in read.placements] == [
        (step.local_bsz, step.step_time, step.sync_time) for step in table.steps
    ]
    spread = next(row for row in read.placements if row.placement.host_count == 2)
    assert spread.placement.accelerator_count == 4  # "13"


def test_a_step_is_computing_and_waiting(table: SiaTable) -> None:
    found = {(step.placement, step.local_bsz): step for step in table.steps}
    assert len(found) == 10 and table.left_out == ()
    assert found["1", 64].sync_time == 0.0
    # Both replicas and one alone compute the same; the rest of the step waits.
    waited_s = found["44", 64].step_time - found["1", 64].step_time
    assert found["44", 64].sync_time == pytest.approx(waited_s)
    assert found["44", 64].sync_time > found["4", 64].sync_time > 0


def test_scalability_and_profiles_go_by_nodes_and_replicas(table: SiaTable) -> None:
    rows = list(csv.DictReader(io.StringIO(table.scalability_csv())))
    assert list(rows[0]) == ["num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"]
    profiles = table.profiles()
    assert {
        (int(r["num_nodes"]), int(r["num_replicas"]), int(r["local_bsz"])): (
            float(r["step_time"]),
            float(r["sync_time"]),
        )
        for r in rows
    } == profiles
    assert (2, 4, 16) in profiles and (2, 8, 64) in profiles


def test_what_does_not_fit_is_left_out(estimator: Estimator) -> None:
    small = SiaCluster(accelerator="P4", per_node=2, nodes=1)
    table = steps(
        LocalAnswers(estimator), training("timm/huge"), small, local_batch_sizes=[1],
        placements=["1"],
    )  # fmt: skip
    assert table.steps == () and table.left_out == ("1 1: does not fit into memory",)


@pytest.mark.parametrize("name", ["", "0", "5", "4 4", "4a"])
def test_a_placement_is_digits(name: str, estimator: Estimator) -> None:
    with pytest.raises(InvalidInputError, match="digit from 1 to 4"):
        steps(
            LocalAnswers(estimator), training("timm/small"), AWS, local_batch_sizes=[1],
            placements=[name],
        )  # fmt: skip


def test_a_node_has_one_digit() -> None:
    with pytest.raises(InvalidInputError, match="one digit"):
        SiaCluster(accelerator="A100", per_node=16, nodes=1)


def test_without_the_service_an_export_says_so(failing: Service) -> None:
    with pytest.raises(NoAnswerError):
        steps(failing, training("timm/small"), AWS, local_batch_sizes=[16])
