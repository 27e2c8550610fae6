"""Jobs known by a name and observed steps: nobody knows their memory, and that keeps none away."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from running import running

from perfmodel.adapters import elasticflow, sia
from perfmodel.adapters.adaptdl import step_grid
from perfmodel.adapters.adaptdl_speedup import BatchRange, speedup_fn
from perfmodel.adapters.ask import Cell, Service, read_matrix
from perfmodel.adapters.gavel import ALONE, GavelJob, throughput_table
from perfmodel.adapters.ray import NodeSpeeds
from perfmodel.adapters.skypilot import TimeEstimator, resources_yaml
from perfmodel.client import Client
from perfmodel.client.answers import Matrix
from perfmodel.client.protocol.decode import reader
from perfmodel.estimator import Estimator
from service.app import create_app
from service.settings import Settings

JOB = {"job_type": "recommender", "mode": "training", "batch_size": 64}
SEEN = (("T4", 0.30, 0.0), ("4xT4", 0.40, 0.10), ("V100", 0.12, 0.0))


@pytest.fixture(scope="module")
def named(estimator: Estimator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Return a service that holds three observed steps of a job without a graph."""
    folder = tmp_path_factory.mktemp("named")
    settings = Settings(models=folder, database=f"sqlite:///{folder}/named.db")
    with running(create_app(estimator, settings)) as url:
        with Client(url, timeout_s=60.0) as client:
            taken = client.observe(
                [
                    {"job": JOB, "placement": place, "step_time_s": step_s, "sync_time_s": sync_s}
                    for place, step_s, sync_s in SEEN
                ]
            )
        assert taken.accepted == len(SEEN)
        yield Service(url, timeout_s=60.0)


def test_cells_say_that_it_is_not_known(named: Service) -> None:
    [[one, four]] = named.cells([JOB], ["T4", "4xT4"])
    assert one and four
    assert (one.fits, one.peak_bytes, four.fits, four.peak_bytes) == (None,) * 4
    # Nothing communicates on one, and a third of the time that four compute was seen on four.
    assert one.sync_time_s == 0.0
    assert four.sync_time_s is not None and four.compute_time_s is not None
    assert 0.03 < four.sync_time_s < 0.3 < 1.5 * four.compute_time_s


def test_skypilot_takes_them_for_what_may_run(named: Service) -> None:
    [[cell]] = named.cells([JOB], ["4xT4"])
    assert cell is not None
    estimate = TimeEstimator(named, JOB, total_samples=1e6)
    assert estimate(SimpleNamespace(accelerators={"T4": 4})) == 1e6 / cell.samples_per_second
    assert "ordered" in resources_yaml(named, JOB, {"T4": 1, "V100": 1})


def test_ray_takes_them_for_what_may_run(named: Service) -> None:
    speeds = NodeSpeeds(named, JOB, {"old": "T4", "new": "V100"})
    assert 0 < speeds.of("old") < speeds.of("new") == 1.0


def test_gavel_has_a_rate_of_them(named: Service) -> None:
    asked = [GavelJob(job_type="Recommender", job=JOB, scale_factors=(1, 4))]
    table = throughput_table(named, asked, {"t4": "T4"}, pairs=False)
    assert table.rates["t4"]["Recommender", 1][ALONE] == pytest.approx(1 / 0.30, rel=0.2)
    assert table.rates["t4"]["Recommender", 4][ALONE] != 0.0


def test_sia_and_elasticflow_leave_none_out(named: Service) -> None:
    cluster = sia.SiaCluster(accelerator="T4", per_node=4, nodes=2)
    table = sia.steps(named, JOB, cluster, local_batch_sizes=[64, 128])
    assert table.left_out == () and len(table.steps) == 2 * len(cluster.placements())
    rows = elasticflow.throughputs(named, JOB, "T4", global_batch_sizes=[256], counts=[1, 4])
    assert rows.unanswered == () and len(rows.rows[256]) == 2


def test_adaptdl_profiles_all_of_them(named: Service) -> None:
    grid = step_grid(named, JOB, "T4", batch_sizes=[64, 128], max_replicas=8, per_host=4)
    # (1, 1), (1, 2), (2, 2), (1, 4), (2, 4), (2, 8), (4, 8) of hosts and replicas.
    assert len(grid.atomic_bsz) == 2 * 7
    batches = BatchRange(init_batch_size=64, max_batch_size=512, local_bsz_bounds=(32, 128))
    speedup = speedup_fn(named, JOB, "T4", batches, max_nodes=1, per_host=4)
    assert speedup(1, 4) > speedup(1, 1) == 1.0


def _matrix(**more: object) -> Matrix:
    written = {
        "jobs": 1, "placements": 2, "samples_per_second": [[10.0, None]], "low": [[9.0, None]],
        "high": [[11.0, None]], "coverage": 0.9, "step_time_s": [[2.0, None]],
        "peak_bytes": [[None, None]], "fits": [[None, None]], "basis": [["extrapolated", None]],
        "out_of_distribution": [[False, None]], "status": [["ok", "error"]],
        "model_version": "made-up/1", **more,
    }  # fmt: skip
    found: Matrix = reader(Matrix)(written)
    return found


def test_a_service_that_tells_no_parts_is_read_all_the_same() -> None:
    matrix = _matrix()
    known = Cell(samples_per_second=10.0, step_time_s=2.0, low=9.0, high=11.0, basis="extrapolated")
    assert read_matrix(matrix, 1, 2) == [[known, None]]
    cell = matrix.cell(0, 0)
    assert cell is not None and cell.compute_time_s is cell.sync_time_s is cell.fits is None


def test_an_interval_that_cannot_be_is_refused_and_what_rests_on_nothing_is_no_answer() -> None:
    for wrong in ({"low": [[12.0, None]]}, {"high": [[None, None]]}):
        with pytest.raises(ValueError, match="cannot lie within"):
            read_matrix(_matrix(**wrong), 1, 2)
    assert read_matrix(_matrix(basis=[["default", None]]), 1, 2) == [[None, None]]


def test_parts_are_read_and_checked() -> None:
    parts = {"compute_time_s": [[1.5, None]], "sync_time_s": [[0.75, None]]}
    [[cell, none]] = read_matrix(_matrix(**parts), 1, 2)
    assert cell is not None and none is None
    assert (cell.compute_time_s, cell.sync_time_s) == (1.5, 0.75)
    for wrong in ({"sync_time_s": [[-0.1, None]]}, {"sync_time_s": [[0.1]]}):
        with pytest.raises(ValueError, match=r"parts|1 x 2"):
            read_matrix(_matrix(**parts | wrong), 1, 2)
