from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.errors import InvalidInputError, InvalidPlacementError, UnknownFieldError
from perfmodel.placement.networks import NETWORKS, named_network
from perfmodel.placement.parse import format_placement, parse_placement, placement_to_dict
from perfmodel.placement.topology import Network, Node, Placement, Plan

SHORT_AND_LONG: list[tuple[str, dict[str, Any]]] = [
    ("A100", {"nodes": [{"accelerator": "A100"}]}),
    ("8xA100-SXM4-80GB", {"nodes": [{"accelerator": "A100-SXM4-80GB", "count": 8}]}),
    (
        "2x(8xH100-SXM5-80GB)@ib-400g",
        {
            "nodes": [{"accelerator": "H100-SXM5-80GB", "count": 8, "repeat": 2}],
            "network": "ib-400g",
        },
    ),
    (
        "8xA100+4xV100@eth-25g",
        {
            "nodes": [{"accelerator": "A100", "count": 8}, {"accelerator": "V100", "count": 4}],
            "network": {"name": "eth-25g"},
        },
    ),
    ("3x(MI300X)", {"nodes": [{"accelerator": "MI300X", "repeat": 3}]}),
]


@pytest.mark.parametrize(("short", "long"), SHORT_AND_LONG)
def test_both_forms_give_the_same_placement(short: str, long: dict[str, Any]) -> None:
    assert parse_placement(short) == parse_placement(long)
    assert format_placement(parse_placement(long)) == short


@pytest.mark.parametrize("spelling", [" 8 x A100 ", "8XA100", "8x A100"])
def test_space_and_case_do_not_matter(spelling: str) -> None:
    assert parse_placement(spelling) == parse_placement("8xA100")


def test_names_that_look_like_counts_stay_names() -> None:
    assert parse_placement("910B").nodes == (Node(accelerator="910B"),)
    xeon = "Intel(R) Xeon(R) Platinum 8480"
    assert parse_placement(f"2x{xeon}").nodes == (Node(accelerator=xeon, count=2),)


def test_line_rate_becomes_bytes_per_second() -> None:
    # 400 Gbit/s / 8 bit/byte = 50e9 bytes/s.
    assert named_network("IB-400G").bandwidth_bytes_per_s == 50e9
    assert named_network("eth-10g").bandwidth_bytes_per_s == 1.25e9


def test_a_stated_number_beats_the_name_of_a_network() -> None:
    network = parse_placement(
        {"nodes": [{"accelerator": "A100"}], "network": {"name": "ib-400g", "latency_s": 1e-3}}
    ).network
    assert network == Network(name="ib-400g", bandwidth_bytes_per_s=50e9, latency_s=1e-3)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no accelerator"),
        ("8x", "no accelerator"),
        ("+A100", "no accelerator"),
        ("0xA100", "between 1 and"),
        ("99999999999999xA100", "between 1 and"),
        ("0x(8xA100)", "between 1 and"),
        ("2x(8xA100", "no accelerator"),
        ("2x3xA100", "no accelerator"),
        ("A100@", "names no network"),
        ("A100@ib-40g", "Did you mean 'ib-400g'"),
    ],
)
def test_nonsense_in_the_short_form_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidPlacementError, match=reason) as caught:
        parse_placement(text)
    assert caught.value.pointer == "/placement"


_NODE = {"accelerator": "A100"}


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ({}, "/nodes"),
        ({"nodes": []}, "/nodes"),
        ({"nodes": "A100"}, "/nodes"),
        ({"nodes": [7]}, "/nodes/0"),
        ({"nodes": [{}]}, "/nodes/0/accelerator"),
        ({"nodes": [{"accelerator": " "}]}, "/nodes/0/accelerator"),
        ({"nodes": [{**_NODE, "count": 0}]}, "/nodes/0/count"),
        ({"nodes": [{**_NODE, "count": True}]}, "/nodes/0/count"),
        ({"nodes": [{**_NODE, "count": 2.5}]}, "/nodes/0/count"),
        ({"nodes": [_NODE, {**_NODE, "repeat": -1}]}, "/nodes/1/repeat"),
        ({"nodes": [_NODE], "network": "ib-1g"}, "/network"),
        ({"nodes": [_NODE], "network": {}}, "/network"),
        ({"nodes": [_NODE], "network": {"latency_s": 1e-6}}, "/network/bandwidth_bytes_per_s"),
        (
            {"nodes": [_NODE], "network": {"bandwidth_bytes_per_s": float("nan")}},
            "/network/bandwidth_bytes_per_s",
        ),
        ({"nodes": [_NODE], "plan": {"tensor": 0}}, "/plan/tensor"),
        ({"nodes": [_NODE], "plan": {"zero_stage": 4}}, "/plan/zero_stage"),
        ({"nodes": [_NODE], "fraction": 1.5}, "/fraction"),
        ({"nodes": [_NODE], "power_limit_w": 0}, "/power_limit_w"),
        ({"nodes": [_NODE], "shared_with": ["a", 1]}, "/shared_with/1"),
        (7, ""),
    ],
)
def test_nonsense_in_the_long_form_points_to_itself(value: Any, pointer: str) -> None:
    with pytest.raises(InvalidPlacementError) as caught:
        parse_placement(value, pointer="/placement")
    assert caught.value.pointer == f"/placement{pointer}"


def test_an_unknown_field_comes_with_the_one_that_was_meant() -> None:
    with pytest.raises(UnknownFieldError) as caught:
        parse_placement({"nodes": [{"accelerator": "A100", "cont": 8}]})
    assert caught.value.pointer == "/placement/nodes/0/cont"
    assert caught.value.did_you_mean == ["count"]


_NAMES = st.sampled_from(["A100", "H100-SXM5-80GB", "MI300X", "RTX 4090", "TPU-v5e"])
_COUNTS = st.integers(1, 1000)
_NODES = st.builds(Node, accelerator=_NAMES, count=_COUNTS, repeat=_COUNTS)
_NETWORKS = st.none() | st.sampled_from(list(NETWORKS.values()))
_PLACEMENTS = st.builds(
    Placement,
    nodes=st.lists(_NODES, min_size=1, max_size=3).map(tuple),
    network=_NETWORKS | st.builds(Network, bandwidth_bytes_per_s=st.floats(1, 1e12)),
    plan=st.just(Plan()) | st.builds(Plan, data=_COUNTS, tensor=_COUNTS),
    cpu_cores=st.none() | _COUNTS,
)


@given(_PLACEMENTS)
def test_what_is_written_is_read_back(placement: Placement) -> None:
    assert parse_placement(format_placement(placement)) == placement
    assert parse_placement(placement_to_dict(placement)) == placement


@given(st.text(alphabet="0123456789xX()+@ -Aib", max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        placement = parse_placement(text)
    except InvalidInputError:
        return
    assert placement.accelerator_count >= 1
