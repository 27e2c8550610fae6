"""Texts that are made to take long to read: without the bounds each takes minutes, or for ever."""

from __future__ import annotations

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidPlacementError, UnknownAcceleratorError
from perfmodel.estimator.core.resolved_placement import resolve_placement
from perfmodel.placement.topology.parse import MAX_TEXT, parse_placement

_FILL = MAX_TEXT - 100


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("A" + " " * _FILL + "x", id="spaces in a name"),
        pytest.param("8" + " " * _FILL + "y", id="spaces after a count"),
        pytest.param("8 x" + "\t" * _FILL, id="tabs"),
        pytest.param("(" + " " * _FILL + ")x", id="spaces instead of counts"),
        pytest.param("A" + " " * _FILL + "[", id="spaces before a link"),
        pytest.param("A100@9" + " " * _FILL + "gbit,", id="spaces in a rate"),
        pytest.param("8xA100" + " sp" * (_FILL // 3) + " !", id="options"),
        pytest.param("8xA100" + " a=b" * (_FILL // 4) + " ! x", id="options that are none"),
        pytest.param("8xA100 a" + " " * _FILL + "=", id="spaces in an option"),
        pytest.param("nvidia.com/gpu: 8 " + "a.com/" * (_FILL // 6), id="labels"),
        pytest.param("--gres=gpu:a:8 " + "-N " * (_FILL // 3), id="hosts of Slurm"),
        # Each pair of letters doubles what there is to try.
        pytest.param("nd1" + "_a" * 100 + "!", id="an instance type"),
    ],
)
def test_no_text_takes_long(text: str) -> None:
    with pytest.raises((InvalidPlacementError, UnknownAcceleratorError)) as caught:
        resolve_placement(parse_placement(text), Catalog.default())
    assert len(str(caught.value)) < 2_000
