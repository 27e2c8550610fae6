"""SkyPilot's time estimator and the order of accelerators in YAML."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from adapter_world import training

from perfmodel.adapters.ask import Service
from perfmodel.adapters.skypilot import DEFAULT_S, NEVER_S, TimeEstimator, resources_yaml
from perfmodel.errors import InvalidInputError


def resources(**accelerators: float | None) -> SimpleNamespace:
    """What SkyPilot hands over, as far as the estimator looks at it."""
    return SimpleNamespace(accelerators=accelerators or None)


def test_time_is_samples_over_throughput(service: Service) -> None:
    estimate = TimeEstimator(service, training("timm/small"), total_samples=1e8, num_nodes=2)
    [[cell]] = service.cells([training("timm/small")], ["2x(4xA100)"])
    assert cell is not None
    assert estimate(resources(A100=4)) == pytest.approx(1e8 / cell.samples_per_second)
    assert estimate(resources(A100=4)) < estimate(resources(K80=4))


def test_what_cannot_run_takes_ten_years(service: Service) -> None:
    estimate = TimeEstimator(service, training("timm/huge"), total_samples=1e3)
    assert estimate(resources(P4=1)) == NEVER_S  # does not fit
    assert estimate(resources(NoSuchThing=1)) == NEVER_S
    assert estimate(resources()) == NEVER_S


def test_skypilot_goes_on_without_the_service(failing: Service) -> None:
    estimate = TimeEstimator(failing, training("timm/small"), total_samples=1e8)
    assert estimate(resources(A100=4)) == estimate(resources()) == DEFAULT_S


def test_accelerators_are_ordered(service: Service) -> None:
    # 8.6 GB of weights and gradients: 16 GB hold them, 8 GB do not; 12 GB are an even chance.
    named = {"T4": 1, "A100": 1, "P4": 1, "V100-32GB": 1}
    assert resources_yaml(service, training("timm/huge"), named).splitlines() == [
        "resources:",
        "  ordered:",
        "    - accelerators: A100:1",
        "    - accelerators: V100-32GB:1",
        "    - accelerators: T4:1",
    ]


def test_without_the_service_any_will_do(failing: Service) -> None:
    text = resources_yaml(failing, training("timm/small"), {"K80": 1, "A100": 2})
    assert text == (
        "resources:\n  any_of:\n    - accelerators: K80:1\n    - accelerators: A100:2\n"
    )


def test_what_nobody_knows_comes_last(service: Service) -> None:
    named = {"NoSuchThing": 2, "T4": 1, "P4": 1, "A100": 1}
    assert resources_yaml(service, training("timm/huge"), named).splitlines()[2:] == [
        "    - accelerators: A100:1",
        "    - accelerators: T4:1",
        "    - accelerators: NoSuchThing:2",
    ]


def test_what_does_not_fit_is_not_tried_beside_what_nobody_knows(service: Service) -> None:
    text = resources_yaml(service, training("timm/huge"), {"P4": 1, "NoSuchThing": 2})
    assert text == "resources:\n  ordered:\n    - accelerators: NoSuchThing:2\n"
    # Nothing fits, or nothing is known: any is as good as another.
    for names in ({"P4": 1}, {"NoSuchThing": 2}):
        assert "any_of" in resources_yaml(service, training("timm/huge"), names)


def test_a_part_of_an_accelerator_is_no_whole_one(service: Service) -> None:
    estimate = TimeEstimator(service, training("timm/small"), total_samples=1e8)
    half = {"nodes": [{"accelerator": "A100"}], "fraction": 0.5}
    [[cell]] = service.cells([training("timm/small")], [half])
    assert cell is not None
    assert estimate(resources(A100=0.5)) == pytest.approx(1e8 / cell.samples_per_second)
    assert [estimate(resources(A100=count)) for count in (0, -1, 1.5, None, float("nan"))] == [
        NEVER_S
    ] * 5


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), "2", None])
def test_numbers_that_are_none_are_refused(service: Service, wrong: Any) -> None:
    job = training("timm/small")
    with pytest.raises(InvalidInputError, match="total_samples must be"):
        TimeEstimator(service, job, total_samples=wrong)
    with pytest.raises(InvalidInputError, match="num_nodes must be"):
        TimeEstimator(service, job, total_samples=1e8, num_nodes=wrong)
    with pytest.raises(InvalidInputError, match="The count of T4 must be"):
        resources_yaml(service, job, {"T4": wrong})
    with pytest.raises(InvalidInputError, match="at least one"):
        resources_yaml(service, job, {})
