"""CPUs of the catalogue by family: their peaks, their names, and what is asked of them."""

import re
from importlib import resources

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.processors.families import read_processors
from perfmodel.errors import InvalidInputError, UnknownAcceleratorError

CATALOG = Catalog.default()
FOLDER = resources.files("perfmodel.devices.processors")
SHIPPED = read_processors((FOLDER / "families.toml").read_text(encoding="utf-8"))

WRITTEN = {
    # As people type them
    "Core i7-12700H": "Core-i7-12700H",
    "i7-12700H": "Core-i7-12700H",
    "12700h": "Core-i7-12700H",
    "Intel Core i9 13900K": "Core-i9-13900K",
    "i9-13900KF": "Core-i9-13900K",
    "Xeon Platinum 8480+": "Xeon-Platinum-8480-Plus",
    "8480+": "Xeon-Platinum-8480-Plus",
    "Xeon 6248R": "Xeon-Gold-6248R",
    "E5-2680 v4": "Xeon-E5-2680-v4",
    "EPYC 7763": "EPYC-7763",
    "Ryzen 9 7950X": "Ryzen-9-7950X",
    "Ryzen 7950X": "Ryzen-9-7950X",
    "Threadripper 3970X": "Ryzen-Threadripper-3970X",
    "AWS Graviton3": "Graviton3",
    "Apple M2 Max": "Apple-M2-Max-CPU",
    "M2 Max GPU": "Apple-M2-Max-GPU",
    "Ultra 7 155H": "Core-Ultra-7-155H",
    # /proc/cpuinfo
    "12th Gen Intel(R) Core(TM) i7-12700H": "Core-i7-12700H",
    "Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz": "Xeon-E5-2686-v4",
    "Intel(R) Xeon(R) w9-3495X": "Xeon-w9-3495X",
    "AMD EPYC 7R13 Processor": "EPYC-7R13",
    "AMD Ryzen 7 5800H with Radeon Graphics": "Ryzen-7-5800H",
    "AMD Ryzen 7 7840HS w/ Radeon 780M Graphics": "Ryzen-7-7840HS",
    "AMD Ryzen Threadripper PRO 5975WX 32-Cores": "Ryzen-Threadripper-PRO-5975WX",
    "AMD RYZEN AI MAX+ 395 w/ Radeon 8060S": "Ryzen-AI-Max-Plus-395",
}


@pytest.mark.parametrize(("written", "meant"), WRITTEN.items())
def test_cpus_are_known_as_people_and_systems_write_them(written: str, meant: str) -> None:
    assert CATALOG.get(written).name == meant


@pytest.mark.parametrize(
    ("misspelt", "near"),
    [
        ("Core i7-12770H", "Core-i7-12700H"),
        ("13th Gen Intel(R) Core(TM) i9-13900G", "Core-i9-13900K"),
        ("Ryzen 9 7950", "Ryzen-9-7950X"),
        ("EPYC 7764", "EPYC-7763"),
        ("Xeon Platinum 8481", "Xeon-Platinum-8480C"),
    ],
)
def test_a_misspelt_cpu_is_hinted_at(misspelt: str, near: str) -> None:
    with pytest.raises(UnknownAcceleratorError) as caught:
        CATALOG.get(misspelt)
    meant = [CATALOG.canonical_name(name) for name in caught.value.did_you_mean]
    assert near in meant


def test_a_chip_that_is_a_cpu_and_a_gpu_says_so() -> None:
    assert CATALOG.other_meanings("Apple M4 Max") == ("Apple-M4-Max-GPU",)
    assert CATALOG.other_meanings("Apple M4 Max GPU") == ()


def test_peaks_are_powers_of_two_per_core_and_cycle() -> None:
    alike = [
        spec
        for spec in SHIPPED.specs.values()
        if spec.peak_flops["fp32"] / (spec.core_count * spec.clock_hz)
        in map(pytest.approx, (16, 32, 64))
    ]
    assert len(alike) > 150
    for spec in SHIPPED.specs.values():
        per_cycle = spec.peak_flops["fp32"] / (spec.core_count * spec.clock_hz)
        # Efficient cores are slower and fewer a cycle; shared matrix units of Apple more.
        assert 8 < per_cycle <= 64.01 or spec.vendor == "Apple"


def test_two_kinds_of_cores_add_up() -> None:
    spec = CATALOG.get("Core-i7-12700H")
    assert spec.core_count == 14
    assert spec.peak_flops["fp32"] == 6 * 4.7e9 * 32 + 8 * 3.5e9 * 16
    assert spec.sustained_share == pytest.approx(2.3 / 4.7)
    assert spec.bandwidth_bytes_per_s == 2 * 8 * 4.8e9


def test_a_wrong_figure_is_named_by_its_place() -> None:
    text = """
    [sources]
    "*" = "recalled"
    [families.Toy]
    vendor = "us"
    architecture = "v1"
    form_factor = "chip"
    year = 2020
    flop_per_cycle = { fp32 = -1 }
    memory = [2, 3.2e9, 16]
    models = { Toy-1 = [4, 3.0, 8] }
    """
    with pytest.raises(InvalidInputError) as caught:
        read_processors(text)
    assert caught.value.pointer == "/families/Toy-1/peak_flops/fp32"


def test_short_names_are_no_counts_and_no_bare_numbers() -> None:
    assert "7763" not in CATALOG
    assert not [alias for alias in SHIPPED.aliases if re.match(r"\d{1,2}-|\d+$", alias)]
