import copy
import json
from dataclasses import replace

import pytest

from perfmodel.errors import DamagedArtifactError
from perfmodel.placement.collectives.collective_constants import Collective, CollectiveConstants
from perfmodel.placement.collectives.collectives import collective_time_s
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.fitted.forms import as_plain
from perfmodel.placement.topology.links import LinkClass

FITTED = CollectiveConstants.fitted()


def test_constants_come_back_from_json() -> None:
    again = CollectiveConstants.from_dict(json.loads(json.dumps(as_plain(FITTED))))
    assert again == FITTED


def test_every_class_and_operation_has_an_efficiency() -> None:
    assert set(FITTED.efficiency) == set(LinkClass) - {LinkClass.NONE}
    for link, shares in FITTED.efficiency.items():
        assert set(shares) == set(Collective)
        # The system's own copies between processes reach far less of a memory's rate.
        least = 0.02 if link is LinkClass.HOST_MEMORY else 0.3
        assert all(least < share <= 1 for share in shares.values())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("efficiency", "pcie", "all_reduce"), 1.5),
        (("efficiency", "pcie", "all_reduce"), 0.0),
        (("operations", "all_gather", "launch_hops"), -1.0),
        (("operations", "all_gather", "fill_widths"), [float("nan")]),
        (("in_switch", "efficiency"), "much"),
        (("latency_scale", "pcie"), None),
        (("efficiency", "string"), {}),
    ],
)
def test_damaged_constants_are_refused(path: tuple[str, ...], value: object) -> None:
    values = copy.deepcopy(as_plain(FITTED))
    inner = values
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    with pytest.raises(DamagedArtifactError, match="fit-placement"):
        CollectiveConstants.from_dict(values)


def test_a_missing_operation_is_refused() -> None:
    values = as_plain(FITTED)
    del values["operations"]["broadcast"]
    with pytest.raises(DamagedArtifactError):
        CollectiveConstants.from_dict(values)


def test_constants_can_be_replaced() -> None:
    half = {
        link: {op: share / 2 for op, share in shares.items()}
        for link, shares in FITTED.efficiency.items()
    }
    slower = replace(FITTED, efficiency=half)
    pair = CommGroups.one_host([2], LinkClass.PCIE, 1e10)
    usual, twice = (
        collective_time_s(Collective.SEND_RECV, 1e12, pair, constants)[0]
        for constants in (FITTED, slower)
    )
    assert twice / usual == pytest.approx(2, rel=0.01)
