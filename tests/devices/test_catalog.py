"""Laws that every device of the shipped catalogue obeys, and how the catalogue is asked."""

import re
from importlib import resources

import pytest
from work_done import calls_of

from perfmodel.devices.catalog import SHIPPED, Catalog, read_devices
from perfmodel.devices.codec import spec_from_dict, spec_to_dict
from perfmodel.devices.local_cpu import LocalCpu
from perfmodel.errors import InvalidInputError, UnknownAcceleratorError
from perfmodel.placement.topology.links import pcie_bytes_per_s
from perfmodel.types import Precision

CATALOG = Catalog.default()
SPECS = list(CATALOG)
GEFORCE = [spec for spec in SPECS if spec.peak_flops_fp16_accumulate and "RTX" in spec.name]

#: At least one device of each generation that schedulers still meet.
_LISTED = """
K80 M40-24GB P4 P40 P100-PCIe-16GB P100-SXM2-16GB TITAN-V V100-PCIe-16GB V100-PCIe-32GB
V100S-PCIe-32GB V100-SXM2-16GB V100-SXM2-32GB V100-SXM3-32GB T4 GTX-1080Ti RTX-2060 RTX-2070
RTX-2070-Max-Q RTX-2070-Super RTX-2080 RTX-2080-Max-Q RTX-2080-Super RTX-2080-Super-Max-Q
RTX-2080Ti TITAN-RTX Quadro-RTX-5000 Quadro-RTX-6000 Quadro-RTX-8000 RTX-3060 RTX-3070 RTX-3080
RTX-3080-Max-Q RTX-3080Ti RTX-3090 RTX-3090Ti RTX-4060Ti RTX-4070Ti RTX-4080 RTX-4090 RTX-5080
RTX-5090 RTX-PRO-6000-Workstation RTX-PRO-6000-Max-Q RTX-PRO-6000-Server A2 A10 A10G A16 A30 A40
A100-PCIe-40GB A100-PCIe-80GB A100-SXM4-40GB A100-SXM4-80GB RTX-A4000 RTX-A4500 RTX-A5000
RTX-A5500 RTX-A6000 RTX-4000-Ada RTX-5000-Ada RTX-6000-Ada L4 L40 L40S H100-PCIe-80GB
H100-SXM5-80GB H100-SXM5-96GB H100-NVL-94GB GH200-96GB GH200-144GB H200-SXM H20 B200-SXM B300-SXM
GB200 GB300 MI60 MI100 MI210 MI250 MI250-GCD MI250X MI250X-GCD MI300X MI325X MI350X MI355X
RX-7900-XTX RX-9070-XT RX-7900-XT Arc-A770 Arc-B580 Max-1550 GTX-980 GTX-1050Ti
GTX-1660Ti RTX-2060-Laptop RTX-3050 RTX-4060 RTX-4070 RTX-4070-Super RTX-4080-Super
RTX-5060Ti RTX-5070 RTX-5070Ti RTX-5090-Laptop RTX-2000E-Ada RTX-PRO-5000 GB10 Jetson-Nano
Jetson-TX2 Jetson-Xavier-NX Jetson-AGX-Thor
TPU-v2 TPU-v3 TPU-v4 TPU-v5e TPU-v5p TPU-v6e TPU-v7x Ascend-910A Ascend-910B
Ascend-910C Gaudi1 Gaudi2 Gaudi3 Trainium1 Trainium2 IPU-GC200 Arc-Pro-B60 EPYC-7742 EPYC-7763
EPYC-9654 EPYC-9754 EPYC-9755 EPYC-9965 Xeon-Platinum-8180 Xeon-Platinum-8280 Xeon-Platinum-8380
Xeon-Platinum-8480-Plus Xeon-Platinum-8592-Plus Xeon-6980P Core-i9-10940X Graviton2 Graviton3
Graviton4 Ampere-Altra-Q80-30
"""
FAMILIES = _LISTED.split()


def test_family_is_present():
    for name in FAMILIES:
        assert name in CATALOG.names()


def test_narrower_types_are_never_slower():
    for spec in SPECS:
        # int8 is left out: it was cut on Blackwell Ultra, and the first Gaudis state none.
        for wide, narrow in (
            ("fp32", "tf32"),
            ("fp32", "fp16"),
            ("fp32", "bf16"),
            ("tf32", "bf16"),
        ):
            if wide in spec.peak_flops and narrow in spec.peak_flops:
                assert spec.peak_flops[narrow] >= spec.peak_flops[wide]
        if "fp8" in spec.peak_flops:
            assert spec.peak_flops["fp8"] >= spec.peak_flops["bf16"]


def test_numbers_lie_where_hardware_lies():
    for spec in SPECS:
        assert 1e11 < max(spec.peak_flops.values()) < 2e16
        # Two channels of a desktop of 2015 at least.
        least = 3e10 if spec.kind == "cpu" else 5e10
        # One computes from its on-chip memory, others have DDR4.
        apart = spec.name in ("IPU-GC200", "Inferentia1", "Jetson-Nano")
        assert least < spec.bandwidth_bytes_per_s < 1e13 or apart
        assert 5e8 < spec.memory_bytes < 1e12
        small = spec.form_factor in ("Module", "Integrated", "Mobile")
        assert spec.tdp_w is None or (10 if small else 50) <= spec.tdp_w < 1500
        assert spec.clock_hz is None or 5e8 < spec.clock_hz <= (6e9 if spec.kind == "cpu" else 5e9)
        assert spec.cache_bytes is None or spec.cache_bytes < spec.memory_bytes
        first = 2013 if "Kepler" in (spec.architecture or "") else 2014
        assert spec.year is not None and first <= spec.year <= 2026


def test_every_number_has_a_source_and_every_link_a_bandwidth():
    for spec in SPECS:
        assert spec.sources["*"]
        assert all("+" not in source for source in spec.sources.values())
        assert (spec.link is None) == (spec.link_bandwidth_bytes_per_s is None)


def test_modules_have_fewer_lanes_than_a_slot():
    # No Jetson has more than eight lanes together, those of credit-card size have four.
    modules = {spec.name: spec for spec in SPECS if spec.form_factor == "Module"}
    lanes = {name: int((spec.link or "").partition("-x")[2]) for name, spec in modules.items()}
    assert {lanes[name] for name in modules if "AGX" in name or name == "GB10"} == {8}
    assert {lanes[name] for name in modules if "AGX" not in name and name != "GB10"} == {4}
    for name, spec in modules.items():
        rate = pcie_bytes_per_s(spec.pcie_generation, lanes[name])
        assert spec.link_bandwidth_bytes_per_s == pytest.approx(rate, rel=1e-3)


def test_small_chips_have_eight_lanes():
    # Four of them share a board with sixteen on an A16.
    small = {"GA107", "AD106", "AD107", "GB206", "Navi23", "Navi33"}
    for spec in SPECS:
        if spec.architecture.split()[-1] in small and spec.name != "A16":
            assert (spec.link or "").endswith("-x8"), spec.name


def test_work_of_every_precision_has_a_rate():
    for spec in SPECS:
        assert all(spec.flops_per_s(precision) > 0 for precision in Precision)


def test_geforce_halves_with_fp32_accumulation():
    for spec in GEFORCE:
        assert spec.peak_flops["fp16"] == pytest.approx(spec.peak_flops_fp16_accumulate / 2)
        if "bf16" in spec.peak_flops:
            assert spec.peak_flops["bf16"] == spec.peak_flops["fp16"]
        if "tf32" in spec.peak_flops:
            # Ampere and later consumer cards: TF32 at half the fp16 rate.
            assert spec.peak_flops["tf32"] == pytest.approx(spec.peak_flops["fp16"] / 2, rel=0.01)
        if "fp8" in spec.peak_flops:
            assert spec.peak_flops["fp8"] == pytest.approx(2 * spec.peak_flops["fp16"], rel=0.01)


def test_geforce_headlines_are_kept_apart():
    # RTX 3090: 142 TFLOP/s headline, 71 with fp32 accumulation, 35.6 in TF32.
    spec = CATALOG.get("RTX-3090")
    assert spec.peak_flops_fp16_accumulate == 142e12
    assert spec.peak_flops["fp16"] == 71e12
    assert spec.peak_flops["tf32"] == 35.6e12
    # RTX 3060: 51 headline.
    assert CATALOG.get("RTX-3060").peak_flops["bf16"] == 25.5e12


def test_cards_without_tensor_cores_compute_fp16_in_fp32():
    # Pascal has fp16 arithmetic, but only with fp16 accumulation.
    spec = CATALOG.get("P100-SXM2-16GB")
    assert "fp16" not in spec.peak_flops
    assert spec.peak_flops_fp16_accumulate == 21.2e12
    assert spec.flops_per_s(Precision.AMP_FP16) == spec.peak_flops["fp32"] == 10.6e12


@pytest.mark.parametrize(
    ("architectures", "fp32_flop_per_sm_and_cycle"),
    [
        (("Pascal GP100", "Volta", "Turing", "Ampere GA100"), 128),  # 64 lanes x 2
        (("Maxwell", "Pascal GP10[24]", "Ampere GA10[2-7]", "Ada", "Blackwell G"), 256),
    ],
)
def test_fp32_peak_is_lanes_times_clock(architectures, fp32_flop_per_sm_and_cycle):
    pattern = re.compile("|".join(architectures))
    checked = [spec for spec in SPECS if pattern.match(spec.architecture)]
    assert len(checked) > 10
    for spec in checked:
        derived = spec.core_count * spec.clock_hz * fp32_flop_per_sm_and_cycle
        # 4 %: vendors round, and some quote a clock below the highest.
        assert spec.peak_flops["fp32"] == pytest.approx(derived, rel=0.04), spec.name


def test_two_dies_compute_fp32_slower_than_16_bits():
    package, die = CATALOG.get("Ascend-910C"), CATALOG.get("Ascend-910B")
    assert package.peak_flops["fp32"] == 2 * die.peak_flops["fp32"]
    assert package.flops_per_s(Precision.FP32) < package.flops_per_s(Precision.BF16) / 4


@pytest.mark.parametrize("name", ["MI250", "MI250X"])
def test_one_die_is_half_of_its_package(name):
    package, die = CATALOG.get(name), CATALOG.get(f"{name}-GCD")
    assert die.memory_bytes * 2 == package.memory_bytes
    assert die.core_count * 2 == package.core_count
    for rate, flops in package.peak_flops.items():
        assert die.peak_flops[rate] == pytest.approx(flops / 2, rel=1e-4)


def test_more_memory_of_the_same_chip_changes_no_peak():
    for small, large in (
        ("A100-SXM4-40GB", "A100-SXM4-80GB"),
        ("V100-SXM2-16GB", "V100-SXM2-32GB"),
        ("H100-SXM5-80GB", "H200-SXM"),
    ):
        assert CATALOG.get(small).peak_flops == CATALOG.get(large).peak_flops
        assert CATALOG.get(small).memory_bytes < CATALOG.get(large).memory_bytes


def test_memory_is_in_gib():
    assert CATALOG.get("A100-SXM4-80GB").memory_bytes == 80 * 1024**3


def test_reading_the_catalogue_takes_little_work():
    folder = resources.files("perfmodel.devices")
    texts = [(folder / name).read_text(encoding="utf-8") for name in SHIPPED]
    # 560 calls a device, a large part of them in the reader of TOML.
    assert calls_of(lambda: Catalog.from_toml(*texts)) < 800 * len(CATALOG.names())


def test_default_is_read_once():
    assert Catalog.default() is Catalog.default()


def test_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UnknownAcceleratorError) as caught:
        CATALOG.get("H10O-SXM5-80GB")
    assert caught.value.did_you_mean[0] == "H100-SXM5-80GB"
    assert "'H10O-SXM5-80GB'" in caught.value.message
    assert "perfmodel devices" in caught.value.message


@pytest.mark.parametrize("name", ["", " ", "-", "nvidia", "gpu", "\x00", "A" * 10_000])
def test_nonsense_is_unknown(name):
    with pytest.raises(UnknownAcceleratorError):
        CATALOG.get(name)
    assert name not in CATALOG


def test_an_added_device_is_found_and_the_old_catalogue_unchanged():
    toy = spec_from_dict({**spec_to_dict(CATALOG.get("T4")), "name": "Toy-1"})
    larger = CATALOG.with_device(toy)
    assert larger.get("toy 1") is toy
    assert len(larger) == len(CATALOG) + 1
    assert "Toy-1" not in CATALOG


def test_an_added_device_may_replace_its_namesake_but_not_take_an_alias():
    changed = spec_from_dict({**spec_to_dict(CATALOG.get("T4")), "tdp_w": 60})
    assert CATALOG.with_device(changed).get("Tesla-T4").tdp_w == 60
    thief = spec_from_dict({**spec_to_dict(CATALOG.get("T4")), "name": "A100"})
    with pytest.raises(InvalidInputError, match="A100"):
        CATALOG.with_device(thief)


def test_a_wrong_number_in_the_file_is_named_by_its_place():
    text = """
    [devices."Toy"]
    kind = "gpu"
    vendor = "us"
    architecture = "v1"
    form_factor = "chip"
    peak_flops = { fp32 = -1 }
    memory_bytes = 1
    bandwidth_bytes_per_s = 1
    """
    with pytest.raises(InvalidInputError) as caught:
        read_devices(text)
    assert caught.value.pointer == "/devices/Toy/peak_flops/fp32"


def test_local_names_ask_the_local_source_only_when_asked():
    class Machine:
        name = "cpu-toy-2c"
        asked = 0

        def describe(self):
            self.asked += 1
            return spec_from_dict({**spec_to_dict(CATALOG.get("EPYC-9654")), "name": self.name})

    machine = Machine()
    catalog = CATALOG.with_local(machine)
    assert "cpu" in catalog and "local" in catalog and "cpu-toy-2c" in catalog
    assert catalog.canonical_name("local") == "cpu-toy-2c"
    assert catalog.canonical_name("Tesla-T4") == "T4"
    assert machine.asked == 0
    assert catalog.get("CPU").name == catalog.get("cpu-toy-2c").name == "cpu-toy-2c"
    assert machine.asked == 2


def test_without_a_local_source_local_is_unknown():
    with pytest.raises(UnknownAcceleratorError):
        CATALOG.with_local(None).get("local")


def test_the_default_knows_this_machine_by_name():
    assert CATALOG.canonical_name("cpu") == LocalCpu().name


MEASURED = [spec for spec in SPECS if spec.matmul_flops_per_s]


def test_no_matrix_product_beats_the_peak() -> None:
    for spec in MEASURED:
        assert spec.matmul_flops_per_s < spec.peak_flops["bf16"]
        assert 0.5 < spec.reachable_share(Precision.AMP_BF16) <= 1.0
        # Full precision runs on other units; nothing was measured there.
        assert spec.reachable_share(Precision.FP32) == 1.0


def test_a_device_that_reaches_half_of_its_peak_counts_for_less() -> None:
    # 668.4 of 1,307 TFLOP/s are 51 %; devices usually reach 80 %.
    slow = CATALOG.get("MI300X")
    assert slow.reachable_share(Precision.BF16) == pytest.approx(668.4 / 1307 / 0.8)
    assert CATALOG.get("H100-SXM5-80GB").reachable_share(Precision.BF16) == 1.0
    assert CATALOG.get("T4").reachable_share(Precision.FP16) == 1.0


def test_units_for_fp16_do_not_stand_in_for_bf16():
    # Volta and Turing multiply fp16 at 125 and 65 TFLOP/s and have nothing for bf16, whose range
    # only fp32 holds: 15.7 and 8.1.
    for name, fp16, fp32 in (("V100-SXM2-16GB", 125e12, 15.7e12), ("T4", 65e12, 8.1e12)):
        spec = CATALOG.get(name)
        assert spec.flops_per_s(Precision.AMP_FP16) == fp16
        assert spec.flops_per_s(Precision.AMP_BF16) == spec.flops_per_s(Precision.BF16) == fp32
        assert spec.rate_of(Precision.BF16) == "fp32"
    assert CATALOG.get("TPU-v4").rate_of(Precision.FP16) == "bf16"
    assert CATALOG.get("A10").rate_of(Precision.FP8) == "bf16"


@pytest.mark.parametrize(
    ("name", "precision", "computed"),
    [
        ("V100-SXM2-16GB", Precision.TF32, Precision.FP32),
        ("A10", Precision.TF32, Precision.TF32),
        ("A10", Precision.FP8, Precision.BF16),
        ("T4", Precision.FP8, Precision.FP16),
        ("H100-SXM5-80GB", Precision.FP8, Precision.FP8),
        # The type says how tensors are stored too.
        ("V100-SXM2-16GB", Precision.BF16, Precision.BF16),
        ("K80", Precision.FP8, Precision.FP8),
    ],
)
def test_what_a_card_lacks_is_computed_in_what_it_has(
    name: str, precision: Precision, computed: Precision
):
    assert CATALOG.get(name).computed_as(precision) is computed


def test_a_clock_that_lasts_is_below_the_boost_clock() -> None:
    stated = [spec for spec in SPECS if spec.sustained_clock_hz]
    assert "K80" in {spec.name for spec in stated}
    for spec in stated:
        assert spec.clock_hz is not None and spec.sustained_clock_hz < spec.clock_hz, spec.name
    # 562 of 875 MHz.
    assert CATALOG.get("K80").sustained_share == pytest.approx(562 / 875)
    assert CATALOG.get("V100-SXM2-16GB").sustained_share == 1.0
