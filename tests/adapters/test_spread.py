"""Placements by counts."""

from __future__ import annotations

import pytest

from perfmodel.adapters.spread import balanced, of_counts, packed
from perfmodel.errors import InvalidInputError
from perfmodel.placement.topology.parse import parse_placement


def test_spreads_are_placements() -> None:
    assert parse_placement(packed("T4", 16)) == parse_placement("2x(8xT4)")
    assert parse_placement(packed("T4", 3)) == parse_placement("3xT4")
    assert parse_placement(packed("T4", 6, per_host=4, network="eth-50g")) == parse_placement(
        "(4+2)xT4@eth-50g"
    )
    assert parse_placement(balanced("T4", 6, 3)) == parse_placement("3x(2xT4)")
    assert parse_placement(of_counts("T4", [1, 3])) == parse_placement("(3+1)xT4")


def test_a_network_needs_several_hosts() -> None:
    assert "network" not in packed("T4", 8, network="eth-50g")
    assert packed("T4", 9, network="eth-50g")["network"] == "eth-50g"


def test_each_host_needs_an_accelerator() -> None:
    with pytest.raises(InvalidInputError, match="no more hosts"):
        balanced("T4", 2, 3)
