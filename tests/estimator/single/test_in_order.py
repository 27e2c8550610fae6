"""Cards and modules of one chip: no weaker one is answered as the faster one."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from dataclasses import replace

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.sisters import is_weaker, sisters_of
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.single.in_order import in_order
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import Basis

KNOWN = Catalog.default()
FAMILY = tuple(
    KNOWN.get(f"A100-{form}") for form in ("PCIe-40GB", "PCIe-80GB", "SXM4-40GB", "SXM4-80GB")
)


def _prediction(time_s: float, wide: float) -> Prediction:
    return Prediction(
        time_s=time_s, low_s=time_s / wide, high_s=time_s * wide, coverage=0.9,
        basis=Basis.INTERPOLATED, out_of_distribution=False, nearest=(), model_version="any",
        warnings=(),
    )  # fmt: skip


def _times(specs: tuple[AcceleratorSpec, ...], *times: float) -> list[float]:
    found = in_order(specs, [_prediction(t, 1.2) for t in times])
    return [one.time_s for one in found]


def test_sisters_share_a_chip_whatever_they_are_called() -> None:
    named = {spec.name for spec in sisters_of(KNOWN.get("H100-NVL-94GB"), KNOWN)}
    assert {"H100-NVL-94GB", "H100-SXM5-80GB", "H200-NVL", "H200-SXM", "GH200-96GB"} < named
    assert "A100-SXM4-80GB" not in named
    assert set(FAMILY) < set(sisters_of(FAMILY[0], KNOWN))
    assert len(sisters_of(KNOWN.get("T4"), KNOWN)) == 1
    assert len(sisters_of(KNOWN.get("TPU-v5e"), KNOWN)) == 1
    # Of what no driver knew the chip of, nothing is known to be alike.
    odd = dataclasses.replace(KNOWN.get("T4"), name="odd", architecture="unknown")
    assert sisters_of(odd, [dataclasses.replace(odd, name="another"), *KNOWN]) == (odd,)
    apple = sisters_of(KNOWN.get("Apple-M1-GPU"), KNOWN)
    assert len(apple) == 5 and {one.kind for one in apple} == {"gpu"}


@pytest.mark.parametrize("seed", range(3))
def test_no_card_is_answered_as_slower_than_a_weaker_one_of_its_chip(seed: int) -> None:
    draw, pairs = random.Random(seed), 0
    for chip in {sisters_of(spec, KNOWN) for spec in KNOWN if spec.kind == "gpu"}:
        found = _times(chip, *(draw.uniform(1.0, 2.0) for _ in chip))
        for one, two in itertools.permutations(range(len(chip)), 2):
            if is_weaker(chip[one], chip[two]):
                pairs += 1
                assert found[one] >= found[two] * (1 - 1e-12), (chip[one].name, chip[two].name)
    assert pairs > 60


def test_times_in_order_are_left_alone() -> None:
    assert _times(FAMILY, 4.0, 3.0, 2.0, 1.0) == [4.0, 3.0, 2.0, 1.0]


def test_less_bandwidth_alone_makes_nothing_faster() -> None:
    for less, more in (("A100-SXM4-40GB", "A100-SXM4-80GB"), ("GH200-96GB", "GH200-144GB")):
        slower, faster = _times((KNOWN.get(less), KNOWN.get(more)), 1.0, 1.2)
        assert slower == pytest.approx(faster)


def test_the_surer_prediction_moves_less() -> None:
    card, module = KNOWN.get("A100-PCIe-80GB"), KNOWN.get("A100-SXM4-80GB")
    found = in_order((card, module), [_prediction(1.0, 2.0), _prediction(2.0, 1.1)])
    assert found[0].time_s == pytest.approx(found[1].time_s)
    # Deviations in logarithms of ln 2 and ln 1.1: the module has 53 times the weight.
    assert found[1].time_s == pytest.approx(
        2.0 * 2 ** (-1 / (1 + (math.log(2) / math.log(1.1)) ** 2))
    )
    for one, before in zip(found, (1.0, 2.0), strict=True):
        assert one.low_s <= before <= one.high_s
        assert one.low_s <= one.time_s <= one.high_s


def test_what_was_measured_does_not_move_for_what_was_not() -> None:
    card, module = KNOWN.get("A100-PCIe-80GB"), KNOWN.get("A100-SXM4-80GB")
    guessed = replace(_prediction(1.0, 1.1), basis=Basis.EXTRAPOLATED)
    found = in_order((card, module), [guessed, _prediction(2.0, 1.5)])
    assert [one.time_s for one in found] == pytest.approx([2.0, 2.0])


@pytest.mark.parametrize("times", [*itertools.permutations((1.0, 1.1, 1.3, 1.7))])
def test_whatever_was_predicted_the_order_holds(times: tuple[float, ...]) -> None:
    found = _times(FAMILY, *times)
    for one, two in itertools.permutations(range(len(FAMILY)), 2):
        if is_weaker(FAMILY[one], FAMILY[two]):
            assert found[one] >= found[two] * (1 - 1e-12)


def test_the_order_of_the_accelerators_does_not_matter() -> None:
    times = dict(zip([spec.name for spec in FAMILY], (1.0, 1.2, 0.9, 1.4), strict=True))
    for order in itertools.permutations(FAMILY):
        found = _times(order, *[times[spec.name] for spec in order])
        by_name = {spec.name: time for spec, time in zip(order, found, strict=True)}
        first = _times(FAMILY, *times.values())
        assert [by_name[spec.name] for spec in FAMILY] == pytest.approx(first, rel=1e-12)
