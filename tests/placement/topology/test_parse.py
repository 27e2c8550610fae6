from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.errors import InvalidInputError, InvalidPlacementError, UnknownFieldError
from perfmodel.graph.job import Job
from perfmodel.placement.topology.links import link_names
from perfmodel.placement.topology.networks import NETWORKS, named_network
from perfmodel.placement.topology.parse import (
    format_placement,
    parse_placement,
    placement_to_dict,
    read_long_form,
)
from perfmodel.placement.topology.short_form import read_short_form
from perfmodel.placement.topology.topology import (
    Neighbour,
    Network,
    Node,
    Placement,
    Plan,
    Schedule,
)

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
    (
        "(1+1+4)xT4[pcie3]@eth-10g/2",
        {
            "nodes": [
                {"accelerator": "T4", "count": 1, "link": "pcie3"},
                {"accelerator": "T4", "link": "PCIe3"},
                {"accelerator": "T4", "count": 4, "link": "pcie3"},
            ],
            "network": {"name": "eth-10g", "oversubscription": 2},
        },
    ),
    (
        "2x(8xA100)@8xib-200g tp=4 pp=2 cp=2 zero=1 sp schedule=interleaved vp=3",
        {
            "nodes": [{"accelerator": "A100", "count": 8, "repeat": 2}],
            "network": {"name": "ib-200g", "rails": 8},
            "plan": {
                "tensor": 4,
                "pipeline": 2,
                "context": 2,
                "zero_stage": 1,
                "sequence_parallel": True,
                "schedule": "interleaved",
                "virtual_stages": 3,
            },
        },
    ),
    (
        "2x(A100)@400gbit,7us ep=2 power=250 fraction=0.5 cores=16 storage=2000000000",
        {
            "nodes": [{"accelerator": "A100", "repeat": 2}],
            "network": {"bandwidth_bytes_per_s": 50e9, "latency_s": 7e-6},
            "plan": {"expert": 2},
            "power_limit_w": 250,
            "fraction": 0.5,
            "cpu_cores": 16,
            "storage_bytes_per_s": 2e9,
        },
    ),
]


@pytest.mark.parametrize(("short", "long"), SHORT_AND_LONG)
def test_both_forms_give_the_same_placement(short: str, long: dict[str, Any]) -> None:
    assert parse_placement(short) == parse_placement(long)
    assert format_placement(parse_placement(long)) == short


@pytest.mark.parametrize("spelling", [" 8 x A100 ", "8XA100", "8x A100"])
def test_space_and_case_do_not_matter(spelling: str) -> None:
    assert parse_placement(spelling) == parse_placement("8xA100")


def test_space_and_case_do_not_matter_in_what_follows() -> None:
    written = "( 1 + 3 ) X T4 [ PCIe3 ] @ 2 x ETH-10G / 2   TP = 2  SP"
    assert format_placement(parse_placement(written)) == "(1+3)xT4[pcie3]@2xeth-10g/2 tp=2 sp"


def test_options_have_the_names_of_the_long_form_too() -> None:
    assert parse_placement("8xA100 tensor=2 sequence_parallel=true") == parse_placement(
        "8xA100 tp=2 sp"
    )


@given(
    st.from_regex(
        r"([0-9]{1,7}x)?(\(?[0-9]{0,3}x?)?[A-Za-z0-9x.-]{1,6}\)?(@[a-z0-9-]{0,9})?", fullmatch=True
    )
    | st.builds(
        "{}x({}x{})@{}".format, st.integers(0, 2_000), st.integers(0, 2_000),
        st.sampled_from(["T4", "x8", "4x", "H100-NVL-94GB"]), st.sampled_from([*NETWORKS, "no"]),
    )
    | st.builds(
        "{}@{}".format,
        st.lists(
            st.sampled_from(["T4", "8xT4", "2x(4xA10)", "(1+2)xT4", "2x(T4", "x(A10)", "T4 ", ""]),
            min_size=1, max_size=4,
        ).map("+".join),
        st.sampled_from(["ib-100g", "ib-100g/2", "no", "", "eth-10g@eth-10g"]),
    )
    | st.builds(
        "{} power={}{}".format,
        st.sampled_from(["T4", "8xT4", "2x(4xA10)@ib-100g", "8xT4@no", "T4 tp=1", "T4x8", ""]),
        st.sampled_from(["250", "0", "07", "1e3", "262.5", "-1", "", "99999", "100000", "٣"]),
        st.sampled_from(["", "w", "W", " ", " tp=1", " power=250", "@ib-100g"]),
    )
)  # fmt: skip
def test_what_is_read_at_a_glance_is_what_the_grammar_says(text: str) -> None:
    try:
        by_grammar = read_long_form(read_short_form(text))
    except InvalidPlacementError:
        with pytest.raises(InvalidPlacementError):
            parse_placement(text)
    else:
        assert parse_placement(text) == by_grammar


def test_uneven_hosts_are_the_same_however_they_are_written() -> None:
    assert parse_placement("1xT4+1xT4+4xT4") == parse_placement("(1+1+4)xT4")


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
        ("1+1+4xT4", r"no accelerator where '1' stands.*\(1\+1\+4\)xT4"),
        ("(1+0)xT4", "between 1 and"),
        ("(1++4)xT4", "whole numbers joined"),
        ("8xA100[nvlnk3]", "Did you mean 'nvlink3'"),
        ("8xA100[pcie4", "no accelerator"),
        ("8xA100@8xib-3200g", "counts its 8 adapters already"),
        ("8xA100@65xib-200g", "between 1 and 64 adapters"),
        ("8xA100@ib-400g/0.5", "oversubscription must be .* at least 1"),
        ("8xA100@ib-400g/nan", "oversubscription must be a finite number"),
        ("8xA100@ib-400g/two", "must be a number; got 'two'"),
        ("8xA100@0gbit", "bandwidth_bytes_per_s must be .* above 0"),
        ("8xA100 tp=3", "does not divide the 8 accelerators"),
        ("8xA100 dp=3 tp=2", "multiply to 6 .* Set data to 4"),
        ("8xA100 ep=3", "Choose expert among 1, 2, 4, 8"),
        ("8xA100 tp=2 tp=4", "states tp twice"),
        ("8xA100 tpp=2", "Did you mean 'tp'"),
        ("8xA100 tp=", "no accelerator"),
        ("8xA100 tp=2.5", "tensor must be a whole number"),
        ("8xA100 pp=2 schedule=zigzag", "one of gpipe, 1f1b, interleaved"),
        ("8xA100 pp=2 schedule=interleaved", "at least 2 virtual stages"),
        ("8xA100 pp=2 vp=2", "belongs to the schedule interleaved"),
        ("8xA100 vp=2 schedule=interleaved", "pipeline of at least 2 stages"),
        ("8xA100 fraction=1.5", "fraction must be .* at most 1"),
        ("8xA100 power=-5", "power_limit_w must be .* above 0"),
        ("1001x(1000xA100)", "has 1001000 accelerators; at most 1000000"),
        ("9" * 5000 + "xA100", "between 1 and"),
        ("A100+" * 30_000 + "A100", "at most 100000 characters"),
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
        ({"nodes": [{**_NODE, "link": "nvlink"}, {**_NODE, "link": "x"}]}, "/nodes/1/link"),
        (
            {"nodes": [_NODE], "network": {"name": "ib-400g", "oversubscription": 0.5}},
            "/network/oversubscription",
        ),
        ({"nodes": [_NODE], "network": {"name": "ib-400g", "rails": 0}}, "/network/rails"),
        ({"nodes": [_NODE], "plan": {"data": 2}}, "/plan/data"),
        ({"nodes": [_NODE], "plan": {"tensor": 2}}, "/plan"),
        ({"nodes": [_NODE], "plan": {"expert": 2}}, "/plan/expert"),
        ({"nodes": [_NODE], "plan": {"sequence_parallel": 1}}, "/plan/sequence_parallel"),
        ({"nodes": [_NODE], "plan": {"schedule": "dual"}}, "/plan/schedule"),
        ({"nodes": [_NODE], "plan": {"schedule": "interleaved"}}, "/plan/virtual_stages"),
        ({"nodes": [{**_NODE, "count": 10**6, "repeat": 2}]}, "/nodes"),
        ({"nodes": [_NODE] * 10_001}, "/nodes"),
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


_NAMES = st.sampled_from(["A100", "H100-SXM5-80GB", "MI300X", "RTX 4090", "TPU-v5e", "gpu:a100"])
_LINKS = st.none() | st.sampled_from(link_names())
_NODES = st.builds(
    Node, accelerator=_NAMES, count=st.integers(1, 300), repeat=st.integers(1, 300), link=_LINKS
)
_UNEVEN = st.builds(
    lambda name, counts: [Node(accelerator=name, count=count) for count in counts],
    _NAMES,
    st.lists(st.integers(1, 8), min_size=2, max_size=4),
)
_NETWORKS = (
    st.none()
    | st.sampled_from(list(NETWORKS.values()))
    | st.builds(
        Network,
        bandwidth_bytes_per_s=st.floats(1, 1e12),
        latency_s=st.floats(0, 1e-3),
        name=st.none() | st.sampled_from(["ib-400g", "mine"]),
        oversubscription=st.floats(1, 100),
        rails=st.integers(1, 64),
    )
    | st.builds(lambda rails: named_network(f"{rails}xib-200g"), st.integers(1, 64))
)


@st.composite
def _plans(draw: st.DrawFn, count: int) -> Plan:
    """Draw a plan whose degrees multiply to a number of accelerators."""
    rest, degrees = count, []
    for _ in range(3):
        degree = draw(st.sampled_from([n for n in (1, 2, 3, 4, 8) if rest % n == 0]))
        degrees.append(degree)
        rest //= degree
    tensor, pipeline, context = degrees
    virtual_stages = draw(st.integers(1, 4)) if pipeline > 1 else 1
    plain = draw(st.sampled_from([Schedule.ONE_F_ONE_B, Schedule.GPIPE]))
    return Plan(
        data=draw(st.sampled_from([None, rest])),
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        expert=draw(st.sampled_from([n for n in (1, 2, 4) if rest % n == 0])),
        zero_stage=draw(st.integers(0, 3)),
        sequence_parallel=draw(st.booleans()),
        schedule=Schedule.INTERLEAVED if virtual_stages > 1 else plain,
        virtual_stages=virtual_stages,
    )


@st.composite
def _placements(draw: st.DrawFn) -> Placement:
    nodes = tuple(draw(st.lists(_NODES, min_size=1, max_size=3) | _UNEVEN))
    return Placement(
        nodes=nodes,
        network=draw(_NETWORKS),
        plan=draw(_plans(sum(node.count * node.repeat for node in nodes))),
        shared_with=draw(st.sampled_from([(), (Neighbour(job_type="other"),)])),
        power_limit_w=draw(st.none() | st.floats(1, 1000)),
        fraction=draw(st.none() | st.floats(0.01, 1)),
        cpu_cores=draw(st.none() | st.integers(1, 512)),
        storage_bytes_per_s=draw(st.none() | st.floats(1, 1e12)),
    )


@given(_placements())
def test_what_is_written_is_read_back_and_short_where_it_can(placement: Placement) -> None:
    written = format_placement(placement)
    assert parse_placement(written) == placement
    assert parse_placement(placement_to_dict(placement)) == placement
    if isinstance(written, str):
        assert format_placement(parse_placement(written)) == written
        assert format_placement(parse_placement(written.upper())) != ""
    else:
        network = placement.network
        # Only jobs beside it and networks that are not catalogued need the long form.
        assert placement.shared_with or (network and NETWORKS.get(network.name or "") != network)


@given(st.text(alphabet="0123456789xX()[]+@/=, -Aibtp", max_size=24))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        placement = parse_placement(text)
    except InvalidInputError:
        return
    assert placement.accelerator_count >= 1


def test_a_neighbour_is_a_job_or_the_name_of_a_type() -> None:
    job = {"model": "timm/resnet18", "mode": "training", "batch_size": 8}
    shuffled = dict(reversed(job.items()))
    one, same = (
        parse_placement({"nodes": [_NODE], "shared_with": [given, "A3C"]})
        for given in (job, shuffled)
    )
    described, named = one.shared_with
    assert (described.job or Job()).batch_size == 8 and described.job_type is None
    assert (named.job, named.job_type, named.key) == (None, "A3C", "A3C")
    assert one == same and hash(one) == hash(same)
    assert one != parse_placement({"nodes": [_NODE], "shared_with": ["A3C"]})
    assert parse_placement(placement_to_dict(one)) == one
