"""Placements as people write them elsewhere: counts last, instance types, words of clusters."""

from __future__ import annotations

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidPlacementError
from perfmodel.estimator.core.resolved_placement import resolve_placement
from perfmodel.placement.topology.instances import instance_types
from perfmodel.placement.topology.networks import named_network
from perfmodel.placement.topology.parse import format_placement, parse_placement


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("A100x8", "8xA100"),
        ("A100:8", "8xA100"),
        ("8*A100", "8xA100"),
        ("8 x A100", "8xA100"),
        ("A100 x 8", "8xA100"),
        ("A100-80GB:8 tp=8", "8xA100-80GB tp=8"),
        ("2x(A100x8)@ib-200g", "2x(8xA100)@ib-200g"),
        ("T4x2+L4x4", "2xT4+4xL4"),
        # These end in x and digits, and are names.
        ("rtx3090", "rtx3090"),
        ("RTX3090x2", "2xRTX3090"),
        ("gtx1080", "gtx1080"),
        ("gpu:3090", "gpu:3090"),
        ("gpu:a100:8", "8xa100"),
        ("gpu:a100:8(S:0-1)", "8xa100"),
        ("gres/gpu:h100=4", "4xh100"),
        ("--gpus-per-node=h100:4", "4xh100"),
        ("--nodes=2 --gres=gpu:a100:8", "2x(8xa100)"),
        # Slurm counts --gpus over the whole job.
        ("--nodes=2 --gpus=a100:8", "2x(4xa100)"),
        ("--gpus=a100:8", "8xa100"),
        (
            "nvidia.com/gpu: 8, nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB",
            "8xNVIDIA-A100-SXM4-80GB",
        ),
        ("amd.com/gpu=4 amd.com/gpu.product-name=AMD_Instinct_MI210", "4xAMD_Instinct_MI210"),
        (
            "nvidia.com/mig-1g.5gb: 2, nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB",
            "2xNVIDIA-A100-SXM4-40GB/1g.5gb",
        ),
        ("p4d.24xlarge", "8xA100-SXM4-40GB"),
        ("2xp4d.24xlarge", "2x(8xA100-SXM4-40GB)@efa-400g"),
        ("p5.48xlarge:4 tp=8", "4x(8xH100-SXM5-80GB)@efa-3200g tp=8"),
        ("2x(g5.12xlarge)@eth-25g", "2x(4xA10G)@eth-25g"),
        ("Standard_ND96asr_v4 x 2", "2x(8xA100-SXM4-40GB)@8xib-200g"),
        ("a3-highgpu-8g", "8xH100-SXM5-80GB"),
        ("8 A100", "8xA100"),
        ("8A100 tp=8", "8xA100 tp=8"),
        ("8× A100", "8xA100"),
        ("2x4090", "2x4090"),
        ("4090x2", "2x4090"),
        ("3080 ti", "3080 ti"),
        ("ml.p4d.24xlarge", "8xA100-SXM4-40GB"),
        ("2xDGX-H100", "2x(8xH100-SXM5-80GB)@8xib-400g"),
        ("HGX H100", "8xH100-SXM5-80GB"),
        ("gpu_8x_h100_sxm5", "8xH100-SXM5-80GB"),
        ("BM.GPU.H100.8", "8xH100-SXM5-80GB"),
        ("2xBM.GPU4.8", "2x(8xA100-SXM4-40GB)@roce-1600g"),
        ("GB200 NVL72", "72xGB200"),
        # Of v5e and v6e chips are counted, of the others their two cores.
        ("v5e-16", "16xTPU-v5e"),
        ("tpu v5litepod-4", "4xTPU-v5e"),
        ("v4-8", "4xTPU-v4"),
        ("TPU-v5p-128", "64xTPU-v5p"),
        # A '+' may belong to a name.
        ("2xXeon Platinum 8480+", "2xXeon Platinum 8480+"),
        ("8480++T4", "8480++T4"),
        ("AMD RYZEN AI MAX+ 395", "AMD RYZEN AI MAX+ 395"),
    ],
)
def test_other_notations_mean_the_same(written: str, meant: str) -> None:
    found = parse_placement(written)
    assert format_placement(found) == meant
    # The same accelerators on the same hosts, however they are written.
    ours = parse_placement(meant)
    assert (found.nodes, found.network, found.plan) == (ours.nodes, ours.network, ours.plan)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("nvidia.com/gpu: 8", "how many, not which"),
        ("nvidia.com/mig-3g.20gb", "how many, not which"),
        ("--gres=gpu:8", "how many, not which"),
        ("--nodes=2 --gpus=a100:7", "cannot be dealt out evenly to 2 hosts"),
        ("gpu:8", "no accelerator"),
        ("p4d.12xlarge", "p4d.24xlarge"),
        ("ecs.gn7-c12g1.3xlarge", "none that is known"),
        ("n1-standard-8", "attached"),
        ("A100x0", "between 1"),
        ("2x3xA100", "no accelerator"),
        ("2x8 A100", r"2x\(8xA100\)"),
        ("--gpus-per-node=8", "how many, not which"),
        ("nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB", "which, not how many"),
        ("2xA100,2xV100", r"2xA100\+2xV100"),
        ("dgx-c100", "DGX-"),
    ],
)
def test_what_does_not_say_which_is_refused(written: str, says: str) -> None:
    with pytest.raises(InvalidPlacementError, match=says):
        parse_placement(written)


def test_the_long_form_names_instances_too() -> None:
    long = parse_placement({"nodes": [{"accelerator": "p4d.24xlarge", "count": 2}]})
    assert long == parse_placement("2xp4d.24xlarge")


def test_every_instance_type_has_known_parts() -> None:
    catalog = Catalog.default()
    types = instance_types()
    assert len(types) > 120
    for one in types.values():
        assert one.accelerator in catalog.names(), one.name
        if one.network:
            named_network(one.network, pointer="")
        found = parse_placement(f"2x{one.name}")
        assert found.accelerator_count == 2 * one.count, one.name


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("p4d.24xlarge", ["'p4d.24xlarge' is read as a host with 8xA100-SXM4-40GB"]),
        ("P100", ["'P100' is read as P100-PCIe-16GB; say P100-SXM2-16GB where it is that."]),
        ("gpu:h100", ["'gpu:h100' is read as H100-SXM5-80GB"]),
        ("A100-SXM4-80GB", []),
        ("NVIDIA-A100-SXM4-80GB", []),
        ("NVIDIA-H100-80GB-HBM3", []),
        ("T4", []),
        ("M1", ["'M1' is read as Apple-M1-CPU"]),
        ("v5e-16", ["'v5e-16' is read as a slice of 16 chips TPU-v5e"]),
        ("8 A100s", ["'A100s' is read as A100-SXM4-40GB"]),
        ("A100-SXM4-40GB/3g.20gb", []),
    ],
)
def test_a_guess_is_said(written: str, said: list[str]) -> None:
    found = resolve_placement(parse_placement(written), Catalog.default()).warnings
    assert len(found) == len(said)
    assert all(text.startswith(start) for text, start in zip(found, said, strict=True))
