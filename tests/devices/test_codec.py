"""A spec survives the way to plain JSON and back; what makes no sense is refused by its place."""

import json
import math
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.codec import spec_from_dict, spec_to_dict
from perfmodel.devices.spec import RATES, AcceleratorSpec
from perfmodel.errors import InvalidInputError

positive = st.floats(min_value=1e-3, max_value=1e20)
# A name of printable characters alone, not blank.
printable = st.characters(exclude_categories=("C", "Z"), include_characters=" ")
text = st.text(printable, min_size=1, max_size=20).filter(str.strip)
specs = st.builds(
    AcceleratorSpec,
    name=text,
    kind=st.sampled_from(["gpu", "cpu", "tpu", "npu"]),
    vendor=text,
    architecture=text,
    form_factor=text,
    year=st.none() | st.integers(1990, 2100),
    peak_flops=st.dictionaries(st.sampled_from(RATES), positive, min_size=1).map(MappingProxyType),
    memory_bytes=positive,
    bandwidth_bytes_per_s=positive,
    peak_flops_fp16_accumulate=st.none() | positive,
    matmul_flops_per_s=st.none() | positive,
    has_fp4=st.booleans(),
    cache_bytes=st.none() | positive,
    core_count=st.none() | st.integers(1, 10**6),
    clock_hz=st.none() | positive,
    sustained_clock_hz=st.none() | positive,
    tdp_w=st.none() | positive,
    pcie_generation=st.none() | positive,
    link=st.none() | text,
    link_bandwidth_bytes_per_s=st.none() | positive,
    sources=st.dictionaries(st.sampled_from(["*", "year", "tdp_w"]), text).map(MappingProxyType),
    notes=st.just("") | text,
)

TOY = {
    "name": "toy",
    "kind": "npu",
    "vendor": "us",
    "architecture": "v1",
    "form_factor": "chip",
    "peak_flops": {"bf16": 1e12},
    "memory_bytes": 1e9,
    "bandwidth_bytes_per_s": 1e11,
}


def test_blank_notes_are_none():
    assert spec_from_dict({**TOY, "notes": " \r"}).notes == ""


@settings(max_examples=20)
@given(specs)
def test_round_trip_through_json(spec):
    assert spec_from_dict(json.loads(json.dumps(spec_to_dict(spec)))) == spec


def test_round_trip_of_the_catalogue():
    for spec in list(Catalog.default()):
        assert spec_from_dict(spec_to_dict(spec)) == spec


def test_the_plain_form_shares_nothing_with_the_spec():
    spec = spec_from_dict(TOY)
    spec_to_dict(spec)["peak_flops"]["bf16"] = 0.0
    assert spec.peak_flops["bf16"] == 1e12


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"peak_flops": {}}, "/peak_flops"),
        ({"peak_flops": [1]}, "/peak_flops"),
        ({"peak_flops": {"fp4": 1.0}}, "/peak_flops/fp4"),
        ({"peak_flops": {"fp32": 0}}, "/peak_flops/fp32"),
        ({"peak_flops": {"fp32": True}}, "/peak_flops/fp32"),
        ({"memory_bytes": -1.0}, "/memory_bytes"),
        ({"memory_bytes": None}, "/memory_bytes"),
        ({"memory_bytes": "80GB"}, "/memory_bytes"),
        ({"bandwidth_bytes_per_s": math.nan}, "/bandwidth_bytes_per_s"),
        ({"bandwidth_bytes_per_s": math.inf}, "/bandwidth_bytes_per_s"),
        ({"bandwidth_bytes_per_s": 10**400}, "/bandwidth_bytes_per_s"),
        ({"core_count": 1.5}, "/core_count"),
        ({"core_count": 0}, "/core_count"),
        ({"has_fp4": "yes"}, "/has_fp4"),
        ({"kind": "fpga"}, "/kind"),
        ({"name": ""}, "/name"),
        ({"name": "  "}, "/name"),
        ({"notes": 3}, "/notes"),
        ({"vendor": 3}, "/vendor"),
        ({"watts": 3}, "/watts"),
        ({"sources": {"watts": "x"}}, "/sources/watts"),
        ({"sources": {"tdp_w": 3}}, "/sources/tdp_w"),
    ],
)
def test_nonsense_is_refused_by_its_place(change, pointer):
    with pytest.raises(InvalidInputError) as caught:
        spec_from_dict({**TOY, **change}, pointer="/accelerator")
    assert caught.value.pointer == "/accelerator" + pointer


@pytest.mark.parametrize("plain", [None, [], "A100", 3])
def test_what_is_no_object_is_refused(plain):
    with pytest.raises(InvalidInputError, match="object"):
        spec_from_dict(plain)


@pytest.mark.parametrize("missing", TOY)
def test_a_missing_field_is_named(missing):
    with pytest.raises(InvalidInputError, match=missing):
        spec_from_dict({key: value for key, value in TOY.items() if key != missing})
