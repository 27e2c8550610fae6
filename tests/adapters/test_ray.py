"""Ray's scorer; with Ray's own packages where an interpreter that has them is named."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from adapter_world import training

from perfmodel.adapters.ask import Service
from perfmodel.adapters.ray import VARIABLE, NodeSpeeds, scored
from perfmodel.errors import InvalidInputError

ROOT = Path(__file__).resolve().parents[2]

#: An interpreter that has ray.
INTERPRETER = "PERFMODEL_RAY_PYTHON"

NODES = {"new": "8xA100-SXM4-80GB", "old": "4xV100-SXM2-16GB", "odd": "nonsense"}


def test_speeds_are_relative_and_per_accelerator(service: Service) -> None:
    speeds = NodeSpeeds(service, training("timm/small"), NODES)
    [[new, old]] = service.cells([training("timm/small")], [NODES["new"], NODES["old"]])
    assert new and old
    assert speeds.of("new") == 1.0
    expected = (old.samples_per_second / 4) / (new.samples_per_second / 8)
    assert speeds.of("old") == pytest.approx(expected) and expected < 1
    assert speeds.of("odd") == speeds.of("never heard of") == 0.0


def test_a_node_that_is_too_small_comes_last(service: Service) -> None:
    speeds = NodeSpeeds(service, training("timm/huge"), {"small": "1xP4", "large": "1xA100"})
    assert (speeds.of("small"), speeds.of("large")) == (0.0, 1.0)


def test_without_an_answer_all_count_the_same(failing: Service) -> None:
    speeds = NodeSpeeds(failing, training("timm/small"), NODES)
    assert [speeds.of(name) for name in NODES] == [1.0, 1.0, 1.0]


def test_speed_counts_for_what_is_used() -> None:
    assert scored(None, 1.0, {"GPU": 8}, [{"GPU": 1}]) is None
    large = scored((True, 1, 0.1, 0.1), 1.0, {"GPU": 8}, [{"GPU": 1}])
    small = scored((True, 1, 1.0, 1.0), 0.5, {"GPU": 1}, [{"GPU": 1}])
    assert large and small and small > large  # 1/8 of a fast node, half the speed of a slow one
    assert scored((False, 0, 0.0, 0.0), 1.0, {"GPU": 8}, [{"CPU": 1}]) == (False, 0, 0.0, 0.0, 0.0)


def test_the_configuration_is_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for written in ("", "{}", str(tmp_path / "missing")):
        monkeypatch.setenv(VARIABLE, written)
        with pytest.raises(InvalidInputError, match=VARIABLE):
            NodeSpeeds.from_environment()
    file = tmp_path / "ray.json"
    told = {"url": "http://127.0.0.1:9", "job": training("timm/small"), "node_types": NODES}
    file.write_text(json.dumps(told | {"timeout_s": 0.2}))
    monkeypatch.setenv(VARIABLE, str(file))
    assert NodeSpeeds.from_environment().of("old") == 1.0


_CHILD = """
import logging, os, sys
from functools import partial
from ray._private.utils import load_class
from ray.autoscaler._private.resource_demand_scheduler import get_nodes_for
scorer = partial(load_class(os.environ["RAY_AUTOSCALER_UTILIZATION_SCORER"]),
                 node_availability_summary=None)
types = {"old": {"resources": {"GPU": 4, "CPU": 8}, "max_workers": 4},
         "new": {"resources": {"GPU": 4, "CPU": 8}, "max_workers": 1},
         "cpu": {"resources": {"CPU": 8}, "max_workers": 4}}
for demand in ([{"GPU": 4}], [{"GPU": 4}] * 2, [{"CPU": 1}]):
    chosen, rest = get_nodes_for(types, {}, "cpu", 9, demand, utilization_scorer=scorer)
    print(sorted(chosen.items()), rest)
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_up", [True, False])
def test_rays_own_function_launches_the_faster_type(service_url: str, is_up: bool) -> None:
    python = os.environ.get(INTERPRETER)
    if not python:
        pytest.skip(f"{INTERPRETER} names no interpreter that has ray")
    told = {
        "url": service_url if is_up else "http://127.0.0.1:9",
        "job": training("timm/small"),
        "node_types": {"old": "4xV100-SXM2-16GB", "new": "4xA100-SXM4-80GB"},
        "timeout_s": 20,
    }
    run = subprocess.run(
        [python, "-c", _CHILD],
        capture_output=True, text=True, check=False, timeout=120,
        env={
            **os.environ, "PYTHONPATH": str(ROOT), VARIABLE: json.dumps(told),
            "RAY_AUTOSCALER_UTILIZATION_SCORER": "perfmodel.adapters.ray.utilization_scorer",
        },
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    one, two, none = run.stdout.splitlines()[-3:]
    if is_up:
        assert one == "[('new', 1)] []"
        assert two == "[('new', 1), ('old', 1)] []"  # there is only one of the faster
    else:
        assert one.endswith(" []")
    assert none == "[('cpu', 1)] []"


def test_accelerators_of_a_node_are_counted_however_it_is_written(service: Service) -> None:
    alike = ("8xV100-SXM2-16GB", "V100-SXM2-16GB:8", "p3.16xlarge", "2x(4xV100-SXM2-16GB)")
    types = {"new": NODES["new"]} | {one: one for one in alike}
    speeds = NodeSpeeds(service, training("timm/small"), types)
    [cells] = service.cells([training("timm/small")], list(types.values()))
    rates = [cell.samples_per_second / 8 for cell in cells if cell]
    found = [speeds.of(name) for name in types]
    assert found == pytest.approx([rate / max(rates) for rate in rates])


@pytest.mark.parametrize(
    "change",
    [
        {"timeout": 2.0}, {"timeout_s": 0}, {"timeout_s": "2"}, {"node_types": {"a": ""}},
        {"node_types": {"a": 8}}, {"node_types": ["T4"]},
    ],
)  # fmt: skip
def test_a_configuration_that_cannot_be_meant_is_refused(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, object]
) -> None:
    told = {"url": "http://127.0.0.1:9", "job": training("timm/small"), "node_types": NODES}
    monkeypatch.setenv(VARIABLE, json.dumps(told | change))
    with pytest.raises(InvalidInputError):
        NodeSpeeds.from_environment()
