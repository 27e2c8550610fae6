"""Sia's CSVs and profiles, read back by the importer of the real ones."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adapter_world import ToldOften, training
from published_files import published

from perfmodel.adapters.ask import NoAnswerError, Service
from perfmodel.adapters.local import LocalAnswers
from perfmodel.adapters.sia import SiaCluster, SiaStep, SiaTable, read_steps, steps
from perfmodel.adapters.sia_jobs import sia_jobs
from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator
from perfmodel.importers.jobs.sia_traces import CLUSTERS, read_sia
from perfmodel.requests import parse_job

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


def observed_rows(table: SiaTable) -> list[SiaStep]:
    """Rows that nothing would predict to the last digit."""
    return [SiaStep(s.placement, s.local_bsz, s.step_time * 1.7, s.sync_time) for s in table.steps]


def test_with_everything_measured_the_table_is_the_measurement(
    table: SiaTable, service: Service, tmp_path: Path
) -> None:
    measured = observed_rows(table)
    placements = ["1", "2", "4", "13", "44"]
    again = steps(
        service, training("timm/small"), AWS, local_batch_sizes=[16, 64], placements=placements,
        observed=measured,
    )  # fmt: skip
    assert list(again.steps) == measured and again.left_out == ()
    (tmp_path / "placements-aws.csv").write_text(again.placements_csv())
    assert read_steps(tmp_path / "placements-aws.csv") == measured


def test_measured_rows_come_back_and_move_the_rest(table: SiaTable, estimator: Estimator) -> None:
    found = {(step.placement, step.local_bsz): step for step in table.steps}
    slow_s = 3 * found["1", 64].step_time
    # The same cell twice, one that is not asked for, and a batch of which no row is made.
    measured = [
        ("1", 64, slow_s, 0.0), ("1", 64, slow_s * 1.01, 0.0), ("22", 64, slow_s * 1.2, slow_s / 9),
        ("1", 128, slow_s * 2, 0.0),
    ]  # fmt: skip
    again = steps(
        LocalAnswers(estimator), training("timm/small"), AWS, local_batch_sizes=[16, 64],
        placements=["1", "4"], observed=measured,
    )  # fmt: skip
    assert [step for step in again.steps if tuple(step) in measured] == measured
    after = {(step.placement, step.local_bsz): step for step in again.steps}
    assert len(again.steps) == 2 * 2 - 1 + len(measured)
    # It computes three times as long as predicted: at the other batch and placement, too.
    for cell in (("1", 16), ("4", 64)):
        computed_s = [one[cell].step_time - one[cell].sync_time for one in (found, after)]
        assert computed_s[1] > 1.5 * computed_s[0]


def test_each_measured_row_is_told_once_and_counts_for_all_batches(estimator: Estimator) -> None:
    answers, often = LocalAnswers(estimator), ToldOften(LocalAnswers(estimator))
    measured = [("1", 64, 0.5, 0.0), ("1", 64, 0.51, 0.0), ("4", 16, 0.3, 0.1), ("22", 128, 1.5, 0)]
    asked: Any = {"local_batch_sizes": [16, 32, 64], "observed": measured}
    job = training("timm/small")
    assert steps(answers, job, AWS, **asked) == steps(often, job, AWS, **asked)
    assert (often.came, often.told) == (4, 3 * 4)


def test_a_measured_row_stays_where_the_memory_is_predicted_too_small(estimator: Estimator) -> None:
    small = SiaCluster(accelerator="P4", per_node=2, nodes=1)
    again = steps(
        LocalAnswers(estimator), training("timm/huge"), small, local_batch_sizes=[1, 2],
        placements=["1", "2"], observed=[("1", 2, 2.5, 0.0)],
    )  # fmt: skip
    found = {(step.placement, step.local_bsz): step for step in again.steps}
    assert found["1", 2] == ("1", 2, 2.5, 0.0)
    # With fewer samples it holds no more; one of two holds buckets of gradients besides.
    assert found.keys() == {("1", 1), ("1", 2)}
    assert again.left_out == ("2 1: does not fit into memory", "2 2: does not fit into memory")


def test_rows_are_taken_as_readers_of_csv_give_them(service: Service) -> None:
    job, placements = training("timm/small"), ["1", "2", "44"]
    plain = [("1", 16, 0.02, 0.0), ("44", 16, 0.05, 0.03)]
    numbers = [
        (np.int64(name), np.int64(size), np.float64(step_s), np.float64(sync_s))
        for name, size, step_s, sync_s in plain
    ]
    expected, found = (
        steps(service, job, AWS, local_batch_sizes=[16], placements=placements, observed=rows)
        for rows in (plain, numbers)
    )
    assert found == expected
    assert found.placements_csv() == expected.placements_csv()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("1", 16, 0.0, 0.0), "step time of 1 with 16 must be a number above zero; got 0.0"),
        (("1", 16, -0.1, 0.0), "above zero; got -0.1"),
        (("1", 16, 0.1, -0.1), "zero or above; got -0.1"),
        (("1", 16, 0.1, 0.2), "part of its step; got 0.2 of 0.1"),
        (("5", 16, 0.1, 0.0), "digit from 1 to 4"),
        ((4.0, 16, 0.1, 0.0), "digit from 1 to 4"),
        (("1", 16, 0.1), "measured row of Sia is"),
    ],
)
def test_measured_rows_that_cannot_be_are_refused(
    row: Any, said: str, estimator: Estimator
) -> None:
    with pytest.raises(InvalidInputError, match=said):
        steps(
            LocalAnswers(estimator), training("timm/small"), AWS, local_batch_sizes=[16],
            observed=[row],
        )  # fmt: skip


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    for text in ("", "a,b\n1,2\n", "placement,local_bsz,step_time,sync_time\n1,many,0.1,0\n"):
        (tmp_path / "rows.csv").write_text(text)
        with pytest.raises(InvalidInputError, match="no table of placement,local_bsz"):
            read_steps(tmp_path / "rows.csv")


def test_a_file_from_a_spreadsheet_is_read(tmp_path: Path) -> None:
    text = "\ufeffplacement,local_bsz,step_time,sync_time\r\n1,16,0.1,0\r\n"
    (tmp_path / "rows.csv").write_text(text, encoding="utf-8")
    assert read_steps(tmp_path / "rows.csv") == [("1", 16, 0.1, 0.0)]


@pytest.mark.parametrize("wrong", [0, 1.5, "2"])
def test_a_cluster_has_whole_nodes(wrong: Any) -> None:
    for change in ({"nodes": wrong}, {"per_node": wrong}):
        stated: Any = {"accelerator": "T4", "per_node": 4, "nodes": 2, **change}
        with pytest.raises(InvalidInputError):
            SiaCluster(**stated)


@pytest.mark.parametrize("cluster", sorted(CLUSTERS))
def test_applications_are_those_of_the_tables(cluster: str, tmp_path: Path) -> None:
    accelerator = CLUSTERS[cluster].accelerator
    asked = sia_jobs(accelerator)
    assert set(asked) == {"bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"}
    for name, form in asked.items():
        folder = tmp_path / name
        folder.mkdir()
        row = "placement,local_bsz,step_time,sync_time\n1,8,0.1,0\n"
        (folder / f"placements-{cluster}.csv").write_text(row)
        [known] = read_sia(folder / f"placements-{cluster}.csv").placements
        assert known.job is not None
        assert parse_job({**form, "batch_size": 8}) == replace(known.job, script=True)


def test_an_application_without_a_workload_is_asked_by_its_name() -> None:
    assert sia_jobs("T4", ["gpt"]) == {
        "gpt": {"job_type": "gpt", "mode": "training", "batch_size": 1}
    }


def test_sias_own_rows_come_back(estimator: Estimator) -> None:
    measured = read_steps(published("sia/cifar10/placements-aws.csv"))[:40]
    # Nothing but these is known of a name.
    job = {"job_type": "a name", "mode": "training", "batch_size": 1}
    asked: Any = {"local_batch_sizes": [50], "placements": ["1", "44"]}
    again = steps(LocalAnswers(estimator), job, AWS, observed=measured, **asked)
    assert set(measured) <= set(again.steps) and again.left_out == ()
    assert {("1", 50), ("44", 50)} <= {(step.placement, step.local_bsz) for step in again.steps}
    assert steps(LocalAnswers(estimator), job, AWS, **asked).steps == ()
