from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfmodel.placement.plan_steps.pipeline import WHOLE, _Interleaved, pipeline_time_s
from perfmodel.placement.topology.topology import Schedule

Order = list[tuple[str, int]]


def _order(stage: int, stages: int, count: int) -> Order:
    """Return what a stage of 1F1B runs, forward and backward passes by micro-batch."""
    ahead = min(count, stages - 1 - stage)
    order = [("F", m) for m in range(ahead)]
    for m in range(count - ahead):
        order += [("F", ahead + m), ("B", m)]
    return order + [("B", m) for m in range(count - ahead, count)]


def _by_events(forward: list[float], backward: list[float], send: float, count: int) -> float:
    """Run 1F1B pass by pass, each as soon as what it waits for has ended."""
    stages = len(forward)
    orders = [_order(stage, stages, count) for stage in range(stages)]
    ended: dict[tuple[str, int, int], float] = {}
    turn, clock = [0] * stages, [0.0] * stages
    while any(turn[s] < len(orders[s]) for s in range(stages)):
        for s in range(stages):
            while turn[s] < len(orders[s]):
                kind, m = orders[s][turn[s]]
                before = (kind, s - 1, m) if kind == "F" else (kind, s + 1, m)
                if 0 <= before[1] < stages and before not in ended:
                    break
                arrived = ended[before] + send if before in ended else 0.0
                clock[s] = max(clock[s], arrived) + (forward if kind == "F" else backward)[s]
                ended[kind, s, m] = clock[s]
                turn[s] += 1
    return max(clock)


@pytest.mark.parametrize("stages", [2, 3, 5])
@pytest.mark.parametrize("count", [1, 2, 4, 9])
def test_1f1b_of_unequal_stages_is_what_single_events_give(stages: int, count: int) -> None:
    draw = np.random.default_rng(stages * 100 + count)
    forward, backward, send = draw.random(stages), 2 * draw.random(stages), draw.random()
    found = pipeline_time_s(
        forward[None], backward[None], np.array([send]), np.array([float(count)]),
        Schedule.ONE_F_ONE_B,
    )  # fmt: skip
    expected = _by_events(forward.tolist(), backward.tolist(), float(send), count)
    assert found[0] == pytest.approx(expected)


def test_cells_of_different_length_do_not_touch_each_other() -> None:
    draw = np.random.default_rng(3)
    forward, backward, send = draw.random((4, 3)), draw.random((4, 3)), draw.random(4)
    counts = np.array([1.0, 7.0, 3.0, WHOLE + 50.0])
    together = pipeline_time_s(forward, backward, send, counts, Schedule.ONE_F_ONE_B)
    for row in range(4):
        one = slice(row, row + 1)
        alone = pipeline_time_s(
            forward[one], backward[one], send[one], counts[one], Schedule.ONE_F_ONE_B
        )
        assert together[row] == alone[0]


def _equal(
    schedule: Schedule, stages: int, count: int, chunks: int = 1, send: float = 0.0
) -> float:
    passes = np.ones((1, stages))
    return float(
        pipeline_time_s(
            passes, 2 * passes, np.array([send]), np.array([float(count)]), schedule,
            virtual_stages=chunks,
        )[0]
    )  # fmt: skip


def test_bubble_of_equal_stages_is_p_minus_1_slots() -> None:
    # (n + p - 1) slots of 1 s forward and 2 s backward.
    assert _equal(Schedule.ONE_F_ONE_B, 4, 8) == (8 + 3) * 3
    assert _equal(Schedule.GPIPE, 4, 8) == (8 + 3) * 3
    assert _equal(Schedule.ONE_F_ONE_B, 4, 1000) == (1000 + 3) * 3


@pytest.mark.parametrize(("stages", "chunks", "count"), [(4, 2, 8), (2, 3, 4), (4, 2, 160)])
def test_chunks_divide_the_bubble(stages: int, chunks: int, count: int) -> None:
    expected = count * 3 + (stages - 1) * 3 / chunks
    assert _equal(Schedule.INTERLEAVED, stages, count, chunks) == pytest.approx(expected)


def test_many_unequal_stages_settle_within_few_rounds() -> None:
    stages, rounds = 16, 12
    forward = 1.0 + 0.1 * np.sin(np.arange(stages))[None]
    backward = 2.0 * forward
    backward[0, -1] *= 1.3
    send, count = np.array([0.1]), np.array([float(stages * rounds)])
    whole = _Interleaved(forward, backward, send, 4).time_s(np.array([rounds]))
    told = pipeline_time_s(forward, backward, send, count, Schedule.INTERLEAVED, virtual_stages=4)
    assert told == pytest.approx(whole, rel=0.015)


def test_sends_delay_and_one_stage_has_none() -> None:
    assert _equal(Schedule.ONE_F_ONE_B, 4, 8, send=0.1) > _equal(Schedule.ONE_F_ONE_B, 4, 8)
    assert _equal(Schedule.INTERLEAVED, 4, 8, 2, send=0.1) > _equal(Schedule.INTERLEAVED, 4, 8, 2)
    assert _equal(Schedule.ONE_F_ONE_B, 1, 8, send=0.1) == 8 * 3


def test_one_slow_stage_sets_the_pace() -> None:
    forward = np.array([[1.0, 1.0, 2.0]])
    found = pipeline_time_s(
        forward, 2 * forward, np.zeros(1), np.array([20.0]), Schedule.ONE_F_ONE_B
    )
    # 20 passes of the slow stage, and the others once on the way in and out.
    assert found[0] == pytest.approx(20 * 6 + 2 * 3)


def test_a_last_round_need_not_be_full() -> None:
    """Ten micro-batches on four stages: two rounds and half of a third."""
    forward, backward, none = np.ones((1, 4)), np.full((1, 4), 2.0), np.zeros(1)

    def took(count: float) -> float:
        found = pipeline_time_s(
            forward, backward, none, np.array([count]), Schedule.INTERLEAVED, virtual_stages=2
        )
        return float(found[0])

    assert took(10) == pytest.approx((took(8) + took(12)) / 2)
    counts = [took(count) for count in range(1, 20)]
    assert counts == sorted(counts)


def test_pipelines_are_walked_through_no_more_often_than_they_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walked: list[int] = []
    walk = _Interleaved._walk

    def counted(order: _Interleaved, steps: Any, passes: int, cells: Any) -> Any:
        walked.extend([passes] * int(cells.sum()))
        return walk(order, steps, passes, cells)

    monkeypatch.setattr(_Interleaved, "_walk", counted)
    stages, chunks = 4, 2
    # Two full rounds; a round that is half full after one; more than are walked through.
    counts = np.array([8.0, 6.0, 400.0])
    passes_s = np.random.default_rng(0).uniform(1.0, 2.0, (2, 3, stages))
    together = pipeline_time_s(
        *passes_s, np.zeros(3), counts, Schedule.INTERLEAVED, virtual_stages=chunks
    )
    assert len(walked) == 1 + 2 + 2
    for row, count in enumerate(counts.tolist()):
        alone = pipeline_time_s(
            *passes_s[:, [row]],
            np.zeros(1),
            np.array([count]),
            Schedule.INTERLEAVED,
            virtual_stages=chunks,
        )
        assert alone[0] == together[row]
