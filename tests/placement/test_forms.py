"""Constants as plain JSON values and back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from perfmodel.errors import DamagedArtifactError
from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.fitted.forms import as_plain, read_constants
from perfmodel.placement.topology.links import LinkClass


@dataclass(frozen=True, kw_only=True)
class Inner:
    rate: float
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class Outer:
    inner: Mapping[Collective, Inner]
    by_link: Mapping[LinkClass, float]
    pair: tuple[float, float]
    freedom: float = math.inf


FOUND = Outer(
    inner={Collective.ALL_REDUCE: Inner(rate=2.5, count=3)},
    by_link={LinkClass.PCIE: 0.5},
    pair=(1.0, 2.0),
)


def test_what_is_written_is_read_back() -> None:
    plain = as_plain(FOUND)
    # Infinity, which JSON does not have, is the default of its field.
    assert plain == {
        "inner": {"all_reduce": {"rate": 2.5, "count": 3}},
        "by_link": {"pcie": 0.5},
        "pair": [1.0, 2.0],
    }
    assert read_constants(Outer, json.loads(json.dumps(plain))) == FOUND


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pair": [1.0]}, "1 numbers where 2 are needed"),
        ({"pair": [1.0, "much"]}, "much"),
        ({"by_link": {"string": 1.0}}, "STRING"),
        ({"inner": {"all_reduce": {}}}, "rate"),
        ({"by_link": None}, "Outer cannot be read"),
        ({"warp_speed": 1.0}, "warp_speed"),
        ({"by_link": {"pcie": -1.0}}, "pcie = -1.0"),
    ],
)
def test_anything_else_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(DamagedArtifactError, match=said):
        read_constants(Outer, {**as_plain(FOUND), **changes}, least=0.0)
