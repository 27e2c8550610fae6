"""Hints for AdaptDL's supervisor and speedup functions for PolluxPolicy."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from adapter_world import FAILURES, raw_server, training
from waiting import PATIENCE_S

from perfmodel.adapters.adaptdl import StepGrid, perf_params, put_hints, sched_hints, step_grid
from perfmodel.adapters.adaptdl_speedup import BatchRange, linear_speedup, speedup_fn
from perfmodel.adapters.ask import Cell, JobForm, NoAnswerError, PlacementForm, Service
from perfmodel.adapters.local import LocalAnswers
from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator

#: Keys that AdaptDL's supervisor keeps; it drops all others.
SCHED_HINTS = {
    "initBatchSize", "localBszBounds", "globalBatchSize", "maxBatchSize", "maxProfiledReplicas",
    "gradientAccumulation", "gradParams", "perfParams",
}  # fmt: skip
PERF_PARAMS = ["alpha_c", "beta_c", "alpha_n", "beta_n", "alpha_r", "beta_r", "gamma"]


@pytest.fixture(scope="module")
def grid(estimator: Estimator) -> StepGrid:
    return step_grid(
        LocalAnswers(estimator), training("timm/small"), "V100",
        batch_sizes=[64, 256, 1024], max_replicas=32, per_host=4,
    )  # fmt: skip


def test_the_grid_holds_packed_and_wider_placements(grid: StepGrid) -> None:
    seen = set(zip(grid.num_nodes.tolist(), grid.num_replicas.tolist(), strict=True))
    assert seen == {
        (1, 1), (1, 2), (2, 2), (1, 4), (2, 4), (2, 8), (4, 8), (4, 16), (8, 16), (8, 32), (16, 32),
    }  # fmt: skip
    assert len(grid.atomic_bsz) == 3 * len(seen)
    alone = grid.num_replicas == 1
    assert np.array_equal(grid.accum_step_time[alone], grid.optim_step_time[alone])
    assert (grid.optim_step_time >= grid.accum_step_time).all()
    assert (grid.optim_step_time[~alone] > grid.accum_step_time[~alone]).any()


def test_the_seven_parameters_repeat_the_predictions(grid: StepGrid) -> None:
    fitted = perf_params(grid)
    steps = fitted.step_time_s(grid.num_nodes, grid.num_replicas, grid.atomic_bsz)
    computing = fitted.compute_time_s(grid.atomic_bsz)
    assert np.abs(np.log(computing / grid.accum_step_time)).max() < 0.25
    # The form knows two counts, the prediction links and what overlaps: most of it is kept.
    assert np.median(np.abs(np.log(steps / grid.optim_step_time))) < 0.2


def test_hints_are_what_the_supervisor_keeps(grid: StepGrid) -> None:
    plain = sched_hints(
        grid, init_batch_size=64, max_batch_size=4096, local_bsz_bounds=(32, 100_000)
    )
    # A null in place of gradParams would end AdaptDL's allocator.
    assert set(plain) == SCHED_HINTS - {"gradParams"}
    assert list(plain["perfParams"]) == PERF_PARAMS
    assert all(value >= 1e-8 for value in plain["perfParams"].values())
    assert 1 <= plain["perfParams"]["gamma"] <= 10
    assert plain["maxProfiledReplicas"] == 32
    assert plain["localBszBounds"] == [32, 1024]  # no more than was predicted to fit
    told = sched_hints(
        grid, init_batch_size=64, max_batch_size=4096, local_bsz_bounds=(32, 512),
        grad_params=(0.5, 2.0),
    )  # fmt: skip
    assert told["gradParams"] == {"norm": 0.5, "var": 2.0}
    assert json.loads(json.dumps(told)) == told


def test_hints_in_the_wrong_order_are_refused(grid: StepGrid) -> None:
    with pytest.raises(InvalidInputError, match="max_batch_size"):
        sched_hints(grid, init_batch_size=64, max_batch_size=32, local_bsz_bounds=(1, 64))


def test_what_does_not_fit_is_no_part_of_the_grid(estimator: Estimator) -> None:
    answers = LocalAnswers(estimator)
    asked = {"max_replicas": 2, "per_host": 2}
    kept = step_grid(
        answers, training("timm/huge"), "V100-SXM2-32GB", batch_sizes=[1, 131_072], **asked
    )
    assert set(kept.atomic_bsz.tolist()) == {1}
    with pytest.raises(NoAnswerError, match="none fits"):
        step_grid(answers, training("timm/huge"), "P4", batch_sizes=[1], **asked)


def test_hints_are_put_where_the_supervisor_reads_them() -> None:
    heard: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def supervise() -> None:
        connection, _ = listener.accept()
        with connection:
            while not heard or b'"gamma"' not in b"".join(heard):
                heard.append(connection.recv(65_536))
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    thread = threading.Thread(target=supervise, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    assert put_hints(url, "default", "a job", {"perfParams": {"gamma": 1.0}}, timeout_s=PATIENCE_S)
    thread.join(PATIENCE_S)
    listener.close()
    head, _, body = b"".join(heard).partition(b"\r\n\r\n")
    assert head.startswith(b"PUT /hints/default/a%20job HTTP/1.1")
    assert json.loads(body) == {"perfParams": {"gamma": 1.0}}


def test_a_supervisor_that_fails_ends_nothing() -> None:
    assert not put_hints("http://127.0.0.1:9", "default", "job", {}, timeout_s=0.2)
    for name in ("slow", "error", "drips"):
        with raw_server(FAILURES[name]) as url:
            assert not put_hints(url, "default", "job", {}, timeout_s=0.2)


BATCHES = BatchRange(init_batch_size=64, max_batch_size=4096, local_bsz_bounds=(32, 512))


def test_speedups_are_those_of_the_predictions(service: Service) -> None:
    speedup = speedup_fn(service, training("timm/small"), "V100", BATCHES, max_nodes=3, per_host=4)
    assert speedup(1, 1) == 1.0 and speedup(0, 0) == 0.0
    nodes, replicas = np.array([1, 1, 1, 2, 2, 3]), np.array([1, 2, 4, 4, 8, 12])
    found = speedup(nodes, replicas)
    assert found.shape == (6,)  # type: ignore[union-attr]
    assert speedup(2, 4) < speedup(1, 4)  # the network costs
    assert speedup(nodes.reshape(2, 3), replicas.reshape(2, 3)).shape == (2, 3)  # type: ignore[union-attr]
    # Beyond what was asked nothing is gained.
    assert speedup(4, 16) == speedup(3, 12)


def test_one_point_by_hand(service: Service) -> None:
    fixed = BatchRange(init_batch_size=128, max_batch_size=128, local_bsz_bounds=(64, 128))
    speedup = speedup_fn(service, training("timm/small"), "V100", fixed, max_nodes=1, per_host=2)
    [[one, _], [_, two]] = service.cells(
        [training("timm/small", 128), training("timm/small", 64)], ["V100", "2xV100"]
    )
    assert one and two
    # 128 samples on one replica, or 64 on each of two: the ratio of the times of one step.
    assert speedup(1, 2) == pytest.approx(one.step_time_s / two.step_time_s)


def test_noise_makes_large_batches_worth_it(service: Service) -> None:
    quiet, noisy = (
        speedup_fn(
            service, training("timm/small"), "V100",
            BatchRange(
                init_batch_size=64, max_batch_size=4096, local_bsz_bounds=(32, 512),
                gradient_noise_scale=noise,
            ),
            max_nodes=1, per_host=8,
        )
        for noise in (10.0, 1e5)
    )  # fmt: skip
    assert quiet(1, 8) < noisy(1, 8)


def test_pollux_goes_on_without_the_service(failing: Service) -> None:
    speedup = speedup_fn(failing, training("timm/small"), "V100", BATCHES, max_nodes=2)
    assert speedup is linear_speedup
    assert speedup(2, 8) == 8.0 and speedup(0, 0) == 0.0


class Rooms:
    """Answers of steps of 10 ms and 1 ms a sample, which fit up to a number of samples."""

    def __init__(self, most: int) -> None:
        self._most = most

    def cells(
        self, jobs: Sequence[JobForm], placements: Sequence[PlacementForm], observations: Any = ()
    ) -> list[list[Cell | None]]:
        rows: list[list[Cell | None]] = []
        for size in (int(job["batch_size"]) for job in jobs):
            step_s = 0.01 + 0.001 * size
            cell = Cell(
                samples_per_second=size / step_s, step_time_s=step_s, fits=size <= self._most
            )
            rows.append([cell] * len(placements))
        return rows

    def memory_bytes(self, accelerator: str) -> float | None:
        return None


def test_the_initial_batch_is_asked_for_itself(caplog: pytest.LogCaptureFixture) -> None:
    asked: Any = {"max_nodes": 1, "per_host": 4}
    # Of the sizes that are spaced evenly 112 fits and 169 does not; 128 does, in 138 ms.
    batches = BatchRange(init_batch_size=128, max_batch_size=128, local_bsz_bounds=(32, 256))
    speedup = speedup_fn(Rooms(140), {"model": "some"}, "T4", batches, **asked)
    # 32 samples on each of four take 42 ms, which lies on the line between what is asked.
    assert speedup(1, 4) == pytest.approx(0.138 / 0.042)
    for most, bounds in ((127, (32, 256)), (140, (32, 100))):
        batches = BatchRange(init_batch_size=128, max_batch_size=128, local_bsz_bounds=bounds)
        alone = speedup_fn(Rooms(most), {"model": "some"}, "T4", batches, **asked)
        assert alone is linear_speedup
        assert "the initial batch of 128 is not allowed or does not fit on one replica" in (
            caplog.messages.pop()
        )


def test_a_job_that_does_not_fit_alone_has_a_linear_speedup(service: Service) -> None:
    assert speedup_fn(service, training("timm/huge"), "P4", BATCHES, max_nodes=1) is linear_speedup


@pytest.mark.parametrize("wrong", [0, -1, 2.5])
@pytest.mark.parametrize("name", ["max_replicas", "per_host"])
def test_counts_that_are_none_are_refused(service: Service, name: str, wrong: float) -> None:
    counts: Any = {"max_replicas": 8, "per_host": 4, name: wrong}
    with pytest.raises(InvalidInputError, match=f"{name} must be a whole number"):
        step_grid(service, training("timm/small"), "V100", batch_sizes=[64], **counts)
    batches = BatchRange(init_batch_size=64, max_batch_size=256, local_bsz_bounds=(32, 64))
    counts["max_nodes"] = counts.pop("max_replicas")
    with pytest.raises(InvalidInputError, match="must be a whole number"):
        speedup_fn(service, training("timm/small"), "V100", batches, **counts)


@pytest.mark.parametrize(
    "change",
    [
        {"init_batch_size": 0}, {"max_batch_size": 32}, {"local_bsz_bounds": (0, 64)},
        {"local_bsz_bounds": (64, 32)}, {"gradient_noise_scale": -5.0},
        {"gradient_noise_scale": float("nan")},
    ],
)  # fmt: skip
def test_batches_that_cannot_be_are_refused(change: Any) -> None:
    stated: Any = {"init_batch_size": 64, "max_batch_size": 256, "local_bsz_bounds": (32, 64)}
    BatchRange(**stated, gradient_noise_scale=0.0)
    with pytest.raises(InvalidInputError):
        BatchRange(**stated | change)
