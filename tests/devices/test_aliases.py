"""Names as users write them lead to the device they mean, and to no other."""

import pytest

from perfmodel.devices.aliases import AliasIndex, fold, mig_profile, read_aliases
from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidInputError, UnknownAcceleratorError

CATALOG = Catalog.default()

WRITTEN = {
    # Kubernetes product labels
    "NVIDIA-A100-SXM4-80GB": "A100-SXM4-80GB",
    "NVIDIA-A100-SXM4-40GB": "A100-SXM4-40GB",
    "NVIDIA-A100-PCIE-40GB": "A100-PCIe-40GB",
    "NVIDIA-A100-80GB-PCIe": "A100-PCIe-80GB",
    "NVIDIA-H100-80GB-HBM3": "H100-SXM5-80GB",
    "NVIDIA-H100-NVL": "H100-NVL-94GB",
    "NVIDIA-H200": "H200-SXM",
    "NVIDIA-L40S": "L40S",
    "NVIDIA-GB200": "GB200",
    "Tesla-T4": "T4",
    "Tesla-T4-SHARED": "T4",
    "Tesla-K80": "K80",
    "Tesla-V100-SXM2-16GB": "V100-SXM2-16GB",
    "Tesla-P100-PCIE-16GB": "P100-PCIe-16GB",
    "NVIDIA-GeForce-RTX-3090": "RTX-3090",
    "NVIDIA-GeForce-RTX-3090-SHARED": "RTX-3090",
    "NVIDIA-GeForce-RTX-2080-Ti": "RTX-2080Ti",
    "NVIDIA-RTX-A6000": "RTX-A6000",
    "AMD_Instinct_MI300X_OAM": "MI300X",
    "nvidia-tesla-v100": "V100-SXM2-16GB",
    "nvidia-h100-mega-80gb": "H100-SXM5-80GB",
    "nvidia-l4": "L4",
    "tpu-v5-lite-podslice": "TPU-v5e",
    # Slurm GRES types
    "gpu:a100": "A100-SXM4-40GB",
    "gres/gpu:a100_80gb": "A100-SXM4-80GB",
    "a100": "A100-SXM4-40GB",
    "h100": "H100-SXM5-80GB",
    "v100": "V100-SXM2-16GB",
    "rtx_2080_ti": "RTX-2080Ti",
    "geforce_gtx_1080_ti": "GTX-1080Ti",
    "tesla_v100-sxm2-32gb": "V100-SXM2-32GB",
    "gpu:mi250x": "MI250X-GCD",
    "mi250x": "MI250X",
    # SkyPilot
    "A100": "A100-SXM4-40GB",
    "A100-80GB": "A100-SXM4-80GB",
    "H100": "H100-SXM5-80GB",
    "V100": "V100-SXM2-16GB",
    "V100-32GB": "V100-SXM2-32GB",
    "A10G": "A10G",
    "RTX6000-Ada": "RTX-6000-Ada",
    "tpu-v4": "TPU-v4",
    # nvidia-smi and rocm-smi
    "RTX 3080 Laptop GPU": "RTX-3080-Max-Q",
    "GTX 1060 6GB": "GTX-1060",
    "RTX 4070 SUPER": "RTX-4070-Super",
    "NVIDIA GeForce RTX 4060 Laptop GPU": "RTX-4060-Laptop",
    "NVIDIA Thor": "Jetson-AGX-Thor",
    "AMD Radeon PRO W7900": "Radeon-PRO-W7900",
    "Radeon 8060S Graphics": "Radeon-8060S",
    "Intel(R) Data Center GPU Max 1550": "Max-1550",
    "NVIDIA A100-SXM4-80GB": "A100-SXM4-80GB",
    "NVIDIA A100 80GB PCIe": "A100-PCIe-80GB",
    "NVIDIA H100 PCIe": "H100-PCIe-80GB",
    "Tesla V100-SXM2-16GB": "V100-SXM2-16GB",
    "NVIDIA GeForce RTX 4090": "RTX-4090",
    "NVIDIA H200": "H200-SXM",
    "NVIDIA GH200 480GB": "GH200-96GB",
    "NVIDIA TITAN RTX": "TITAN-RTX",
    "NVIDIA RTX 6000 Ada Generation": "RTX-6000-Ada",
    "Quadro RTX 8000": "Quadro-RTX-8000",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": "RTX-PRO-6000-Max-Q",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "RTX-PRO-6000-Workstation",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "RTX-PRO-6000-Server",
    "AMD Instinct MI250X": "MI250X-GCD",
    "AMD Instinct MI210": "MI210",
    # Tables and result sheets
    "A100 40GB PCIe": "A100-PCIe-40GB",
    "NVIDIA A100-SXM4-80GB (400W)": "A100-SXM4-80GB",
    "V100 32GB SXM2": "V100-SXM2-32GB",
    "H100 80GB SXM5": "H100-SXM5-80GB",
    # Sizes without their B
    "A100-80G": "A100-SXM4-80GB",
    "V100 32G": "V100-SXM2-32GB",
    # /proc/cpuinfo
    "Intel(R) Xeon(R) Platinum 8480+": "Xeon-Platinum-8480-Plus",
    "Intel(R) Core(TM) i9-10940X CPU @ 3.30GHz": "Core-i9-10940X",
    "AMD EPYC 9654 96-Core Processor": "EPYC-9654",
}


def test_written_name_means():
    for written, canonical in WRITTEN.items():
        assert CATALOG.get(written).name == canonical


def test_case_and_separators_do_not_matter():
    for name in CATALOG.names():
        for written in (name.lower(), name.upper(), name.replace("-", "_"), name.replace("-", " ")):
            assert CATALOG.get(written).name == name


def test_every_alias_resolves_to_what_the_table_says():
    for alias in CATALOG.aliases():
        assert CATALOG.get(alias).name == CATALOG.aliases()[alias]


@pytest.mark.parametrize(
    ("written", "profile"),
    [
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "1g.10gb"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED", "1g.10gb"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1c.3g.40gb", "1c.3g.40gb"),
        ("a100-sxm4-80gb_2g.20gb", "2g.20gb"),
    ],
)
def test_a_mig_slice_is_not_the_whole_accelerator(written, profile):
    with pytest.raises(UnknownAcceleratorError) as caught:
        CATALOG.get(written)
    assert profile in caught.value.message
    assert "'A100-SXM4-80GB'" in caught.value.message
    assert f"'A100-SXM4-80GB/{profile}'" in caught.value.message
    assert written not in CATALOG


@pytest.mark.parametrize("written", ["nvidia.com/mig-1g.10gb", "gpu:1g.5gb", "MIG 2g.20gb"])
def test_a_mig_slice_without_its_accelerator_is_refused_too(written):
    with pytest.raises(UnknownAcceleratorError, match="MIG slice"):
        CATALOG.get(written)


@pytest.mark.parametrize(
    "written",
    ["A100-SXM4-40GB/3g.20gb", "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb", "a100-sxm4-40gb/3G.20GB"],
)
def test_names_with_a_profile_are_read(written):
    whole, profile = CATALOG.whole_and_profile(written)
    assert (whole.name, profile.lower()) == ("A100-SXM4-40GB", "3g.20gb")


def test_a_name_without_a_profile_is_the_whole():
    assert CATALOG.whole_and_profile("gpu:h100") == (CATALOG.get("gpu:h100"), "")


@pytest.mark.parametrize("written", ["A100-SXM4-40GB-MIG", "nvidia.com/mig-1g.5gb", "1g.5gb"])
def test_half_a_name_of_a_slice_is_refused(written):
    with pytest.raises(UnknownAcceleratorError):
        CATALOG.whole_and_profile(written)


def test_no_canonical_name_looks_like_a_mig_slice():
    for name in CATALOG.names():
        assert mig_profile(name) is None


@pytest.mark.parametrize("written", ["tpu-v4-8", "NVIDIA H100 CNX", "RTX 5000 SFF Ada", "A100x8"])
def test_a_near_name_is_not_guessed(written):
    # Other products, or a slice of several chips: near is not the same.
    with pytest.raises(UnknownAcceleratorError):
        CATALOG.get(written)


def test_fold_keeps_plus_apart():
    assert fold("8480+") != fold("8480")


def test_an_alias_must_point_to_a_device():
    with pytest.raises(InvalidInputError, match="no device"):
        AliasIndex(["A"], {"b": "C"})


def test_a_name_may_mean_one_device_only():
    with pytest.raises(InvalidInputError, match="means both"):
        AliasIndex(["A-1", "B"], {"a1": "B"})


def test_tables_of_the_alias_file_are_merged():
    assert read_aliases('[x]\n"a" = "A"\n[y]\n"b" = "B"\n') == {"a": "A", "b": "B"}


@pytest.mark.parametrize("word", ["gpu", "GPUs", "cuda", "mps"])
def test_a_word_for_a_kind_asks_which(word: str) -> None:
    with pytest.raises(UnknownAcceleratorError, match="not which") as caught:
        CATALOG.get(word)
    assert not caught.value.did_you_mean
