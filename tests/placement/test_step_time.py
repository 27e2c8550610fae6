from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.errors import InvalidPlacementError
from perfmodel.placement.parse import parse_placement
from perfmodel.placement.step_time import (
    NO_COMMUNICATION_WARNING,
    combine,
    combine_one,
    placement_warnings,
    replicas_of,
)
from perfmodel.types import Mode

_KINDS = st.lists(st.tuples(st.floats(1e-6, 1e3), st.integers(1, 4096)), min_size=1, max_size=5)


@given(_KINDS, st.sampled_from(Mode), st.integers(1, 1024))
def test_one_cell_equals_the_array_to_the_bit(
    kinds: list[tuple[float, int]], mode: Mode, samples: int
) -> None:
    times, counts = [time for time, _ in kinds], [count for _, count in kinds]
    step, rate = combine(
        [np.array([[t]]) for t in times],
        [np.array([float(c)]) for c in counts],
        mode=mode,
        samples=np.array([[float(samples)]]),
    )
    assert combine_one(times, counts, mode=mode, samples=samples) == (step[0, 0], rate[0, 0])


@given(_KINDS, st.sampled_from(Mode), st.integers(0, 4))
def test_one_more_of_a_kind_never_slows_down(
    kinds: list[tuple[float, int]], mode: Mode, position: int
) -> None:
    times, counts = [time for time, _ in kinds], [count for _, count in kinds]
    more = list(counts)
    more[position % len(more)] += 1
    before = combine_one(times, counts, mode=mode, samples=8)
    after = combine_one(times, more, mode=mode, samples=8)
    assert after[0] == before[0]
    assert after[1] > before[1]


def test_training_waits_for_the_slowest_and_serving_does_not() -> None:
    # 2 replicas at 0.1 s, 1 at 0.2 s, 8 samples each:
    # training: 3 * 8 / 0.2 = 120; inference: 2 * 8 / 0.1 + 8 / 0.2 = 200.
    assert combine_one([0.1, 0.2], [2, 1], mode=Mode.TRAINING, samples=8) == (0.2, 120.0)
    assert combine_one([0.1, 0.2], [2, 1], mode=Mode.INFERENCE, samples=8) == (0.2, 200.0)


def test_replicas_count_every_host() -> None:
    replicas = replicas_of(parse_placement("2x(8xA100)+3xV100"))
    assert [(r.accelerator, r.count) for r in replicas] == [("A100", 16), ("V100", 3)]
    assert replicas[1].pointer == "/placement/nodes/1/accelerator"


@pytest.mark.parametrize(
    ("extra", "pointer"),
    [
        ({"plan": {"tensor": 2}}, "/plan/tensor"),
        ({"plan": {"pipeline": 2}}, "/plan/pipeline"),
        ({"plan": {"expert": 2}}, "/plan/expert"),
        ({"plan": {"context": 2}}, "/plan/context"),
        ({"plan": {"zero_stage": 1}}, "/plan/zero_stage"),
        ({"plan": {"data": 3}}, "/plan/data"),
        ({"shared_with": ["other"]}, "/shared_with"),
        ({"fraction": 0.5}, "/fraction"),
        ({"power_limit_w": 200}, "/power_limit_w"),
    ],
)
def test_what_has_no_model_yet_is_refused_where_it_stands(
    extra: dict[str, object], pointer: str
) -> None:
    with pytest.raises(InvalidPlacementError) as caught:
        replicas_of(parse_placement({"nodes": [{"accelerator": "A100", "count": 2}], **extra}))
    assert caught.value.pointer == f"/placement{pointer}"


def test_a_plan_that_is_purely_data_parallel_is_taken() -> None:
    node = {"accelerator": "A100", "count": 2}
    placement = parse_placement({"nodes": [node], "plan": {"data": 2}, "fraction": 1.0})
    assert sum(r.count for r in replicas_of(placement)) == 2


def test_what_is_left_out_is_said() -> None:
    assert placement_warnings(parse_placement("A100")) == ()
    assert placement_warnings(parse_placement("2xA100")) == (NO_COMMUNICATION_WARNING,)
    cores = parse_placement({"nodes": [{"accelerator": "A100"}], "cpu_cores": 4})
    assert "cpu_cores" in placement_warnings(cores)[0]
