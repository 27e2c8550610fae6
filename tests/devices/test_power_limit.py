"""The clock that a power limit leaves a card: hand arithmetic, and what it must not touch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.power_limit import lasting_share

CATALOG = Catalog.default()


def test_cards_of_one_chip_hold_what_their_limit_grants() -> None:
    # GA102: an A10 has 150 W for 72 cores, an RTX 3090 Ti 450 W for 84 at 1.86 GHz.
    clock_ghz = 1.86 * ((150 / 72) / (450 / 84)) ** 0.4
    assert lasting_share(CATALOG.get("A10")) == pytest.approx(clock_ghz / 1.695)
    assert lasting_share(CATALOG.get("RTX-3090Ti")) == 1.0
    # The same chip at half the power: 2^-0.4 of the clock, whatever else the card is.
    half = replace(CATALOG.get("RTX-3090Ti"), name="RTX-3090Ti-half", tdp_w=225.0)
    assert lasting_share(half) == pytest.approx(2**-0.4)
    # A maker that states a lower boost clock for a lower limit has said it already.
    slow = replace(half, clock_hz=1.86e9 * 2**-0.4)
    assert lasting_share(slow) == pytest.approx(1.0)


def test_more_power_never_means_less_clock() -> None:
    card = CATALOG.get("L4")
    shares = [lasting_share(replace(card, tdp_w=watts)) for watts in (40.0, 72.0, 150.0, 900.0)]
    assert shares == sorted(shares) and shares[-1] == 1.0


@pytest.mark.parametrize("name", ["GH200-96GB", "GB200", "TPU-v4", "Xeon-Platinum-8380"])
def test_where_the_power_is_not_that_of_a_gpu_nothing_is_said(name: str) -> None:
    assert lasting_share(CATALOG.get(name)) == 1.0


def test_a_module_with_a_cpu_is_no_measure_for_cards() -> None:
    assert lasting_share(CATALOG.get("H100-SXM5-80GB")) > 0.95


def test_without_a_fact_the_boost_clock_stands() -> None:
    card = CATALOG.get("A10")
    for missing in ({"tdp_w": None}, {"core_count": None}, {"clock_hz": None}):
        assert lasting_share(replace(card, **missing)) == 1.0
    assert lasting_share(replace(card, sustained_clock_hz=1.2e9)) == pytest.approx(1.2 / 1.695)


def test_no_new_card_takes_the_clock_from_one_that_models_learned_from() -> None:
    # What they grant a core is what shipped models took for the most of their chip. A card that
    # grants more belongs into the catalogue with models that are trained after it.
    most = ("RTX-3090Ti", "RTX-2070-Super", "RTX-4090", "RTX-4080", "RTX-3060", "RX-7700S")
    assert [lasting_share(CATALOG.get(name)) for name in most] == [1.0] * len(most)
    held = {"T4": 0.710, "RTX-2080": 0.979, "RTX-4090-Laptop": 0.907, "RX-6900-XT": 0.897}
    for name, share in held.items():
        assert lasting_share(CATALOG.get(name)) == pytest.approx(share, abs=1e-3), name
