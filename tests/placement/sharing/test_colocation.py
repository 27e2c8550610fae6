from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from work_done import calls_of

from perfmodel.placement.fitted import fitted, standing_in
from perfmodel.placement.sharing.colocation import (
    Sharing,
    _pair_model,
    _slowdown_beside,
    basis_of_pair,
    family_of,
    interval_factors,
    known_device_share,
    load_of_type,
    slowdown_beside,
    slowdowns,
)
from perfmodel.placement.sharing.job_load import JobLoad, Loads
from perfmodel.types import Basis

A100, V100 = "A100-SXM4-40GB", "V100-SXM2-16GB"
HEAVY = JobLoad(step_time_s=0.2, device_share=0.95)
LIGHT = JobLoad(step_time_s=0.02, device_share=0.2)


def _beside(one: JobLoad, other: JobLoad, kind: str = A100, **sharing: Sharing) -> float:
    return float(slowdowns(Loads.of([one]), Loads.of([other]), kind, **sharing)[0])


def test_two_busy_jobs_that_take_turns_get_half_each() -> None:
    busy = JobLoad(step_time_s=0.1, device_share=1.0)
    assert _beside(busy, busy, sharing=Sharing.TIME_SLICING) == 2.0
    assert basis_of_pair(busy, busy, A100, sharing=Sharing.TIME_SLICING) is Basis.ANALYTICAL


@pytest.mark.parametrize("sharing", list(Sharing))
def test_nobody_gets_faster_and_a_busier_neighbour_is_worse(sharing: Sharing) -> None:
    shares = np.linspace(0.05, 1.0, 20)
    partners = Loads.of([replace(LIGHT, device_share=float(share)) for share in shares])
    slow = slowdowns(Loads.of([HEAVY] * 20), partners, A100, sharing=sharing)
    assert np.all(slow >= 1) and np.all(np.diff(slow) > 0)


def test_longer_steps_beside_it_hurt_a_job_more() -> None:
    partners = Loads.of([replace(HEAVY, step_time_s=t) for t in (0.02, 0.2, 2.0)])
    slow = slowdowns(Loads.of([LIGHT] * 3), partners, A100)
    assert np.all(np.diff(slow) > 0)


def test_known_families_are_interpolated_on_the_kind_they_were_measured_on() -> None:
    resnet = JobLoad(step_time_s=0.2, device_share=0.9, family="ResNet-50", batch_size=48)
    lstm = JobLoad(step_time_s=0.02, device_share=0.5, family="LM", batch_size=20)
    assert basis_of_pair(resnet, lstm, V100) is Basis.INTERPOLATED
    assert basis_of_pair(resnet, lstm, A100) is Basis.EXTRAPOLATED
    assert basis_of_pair(resnet, LIGHT, V100) is Basis.EXTRAPOLATED


def test_a_job_of_no_known_family_is_answered_by_the_law_on_every_kind() -> None:
    assert _beside(HEAVY, LIGHT, V100) == _beside(HEAVY, LIGHT, A100)


def test_the_range_widens_where_nothing_was_measured() -> None:
    (near, far), (low, high) = map(interval_factors, (Basis.INTERPOLATED, Basis.EXTRAPOLATED))
    assert low < near < 1 < far < high


def test_every_further_neighbour_hurts() -> None:
    slow = [slowdown_beside(HEAVY, [LIGHT] * n, A100) for n in range(4)]
    assert slow[0] == 1.0
    assert np.diff(slow) == pytest.approx([slow[1] - 1] * 3) and slow[1] > 1


def test_families_are_found_by_model_and_by_name() -> None:
    assert family_of("zoo/transformer-translation") == "Transformer"
    assert family_of("A3C") == "A3C" and family_of("timm/resnet50") is None


def test_device_shares_of_families_lie_between_those_of_their_batches() -> None:
    low, middle, high = (known_device_share("LM", b, V100) for b in (5, 28, 80))
    assert low is not None and middle is not None and high is not None
    assert 0 < min(low, high) <= middle <= max(low, high) <= 1
    assert known_device_share("LM", 5, A100) is None
    assert known_device_share("nothing", 5, "K80") is None


def test_a_job_type_without_measurements_has_a_typical_load() -> None:
    load = load_of_type("somebody's job (batch size 7)", A100, 0.5)
    assert (load.family, load.batch_size) == (None, 7)
    assert 0.5 < load.device_share < 1
    assert load_of_type("A3C", "K80", 0.3).family == "A3C"


def test_twenty_thousand_pairs_take_as_many_calls_as_twenty() -> None:
    one = JobLoad(step_time_s=0.2, device_share=0.9, family="ResNet-50", batch_size=48)
    few, many = (Loads.of([one] * count) for count in (20, 20_000))
    calls = [calls_of(lambda loads=loads: slowdowns(loads, loads, V100)) for loads in (few, many)]  # type: ignore[misc]
    assert calls[0] == calls[1]


def _forget() -> None:
    """Let other constants count from now on."""
    _pair_model.cache_clear()
    _slowdown_beside.cache_clear()


def test_cores_have_a_law_of_their_own() -> None:
    shipped = fitted("colocation")
    cores = {
        **{name: shipped[name] for name in ("likeness", "spread")},
        "law": {**shipped["law"], "scale": 3.0},
        "families": ["zoo/ncf training"],
        "log2_batch": [6.0],
        "weights": {"cpu-made-up-2c": [[0.5]]},
        "device_share": {"cpu-made-up-2c": [1.0]},
    }
    job = JobLoad(step_time_s=0.1, family="zoo/ncf training", batch_size=64)
    with standing_in("colocation", {**shipped, "cores": cores}):
        _forget()
        assert family_of("zoo/ncf", mode="training", kind="cpu-made-up-2c") == "zoo/ncf training"
        assert family_of("zoo/resnet50-v1.5", mode="training", kind="cpu-made-up-2c") is None
        assert family_of("zoo/resnet50-v1.5", mode="training", kind="K80") == "ResNet-50"
        assert basis_of_pair(job, job, "cpu-made-up-2c") is Basis.INTERPOLATED
        assert basis_of_pair(job, job, "Xeon-Platinum-8180") is Basis.EXTRAPOLATED
        law = 1 + 3.0  # both keep their cores busy all the time, and are equally long
        assert slowdown_beside(job, [job], "Xeon-Platinum-8180") == pytest.approx(law)
        assert slowdown_beside(job, [job], "cpu-made-up-2c") > law
        assert slowdown_beside(job, [job], "K80") < law
    _forget()
