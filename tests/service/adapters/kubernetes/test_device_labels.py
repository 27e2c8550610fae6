"""Labels of nodes and the accelerators they mean."""

from __future__ import annotations

from pathlib import Path

import pytest
from guarded_service import make_app

from perfmodel.devices.catalog import Catalog
from service.adapters.kubernetes.device_labels import DeviceTable, label_of
from service.adapters.kubernetes.pods import Request, read_pod

NVIDIA = "nvidia.com/gpu.product"


def _name(labels: dict[str, str], request: Request | None = None) -> str | None:
    label = label_of(labels)
    return label and DeviceTable(Catalog.default()).name(label, request)


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({NVIDIA: "NVIDIA-H100-80GB-HBM3"}, "H100-SXM5-80GB"),
        ({NVIDIA: "NVIDIA-A100-SXM4-40GB"}, "A100-SXM4-40GB"),
        ({NVIDIA: "Tesla-T4-SHARED"}, "T4"),
        ({"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, "MI300X"),
        ({"cloud.google.com/gke-accelerator": "nvidia-tesla-v100"}, "V100-SXM2-16GB"),
        ({"cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice"}, "TPU-v5p"),
        # One name, two cards: the label of the memory tells them apart.
        ({NVIDIA: "Tesla-V100-SXM2", "nvidia.com/gpu.memory": "32510"}, "V100-SXM2-32GB"),
        ({NVIDIA: "Tesla-V100-SXM2", "nvidia.com/gpu.memory": "16160"}, "V100-SXM2-16GB"),
        # MIG with the "single" strategy has the profile in the product.
        ({NVIDIA: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}, "A100-SXM4-40GB/1g.5gb"),
        # What people set goes before what is discovered.
        ({NVIDIA: "Tesla-T4", "perfmodel/accelerator": "A10"}, "A10"),
        ({NVIDIA: "Something-Else"}, None),
        ({"perfmodel/accelerator": "cpu"}, None),  # nobody measures this machine for a label
        ({"kubernetes.io/os": "linux"}, None),
    ],
)
def test_labels_mean_accelerators(labels: dict[str, str], name: str | None) -> None:
    assert _name(labels) == name


def test_a_slice_that_a_pod_asks_for_is_a_slice_of_the_node_s_card() -> None:
    # MIG with the "mixed" strategy has the profile in the resource.
    limits = {"limits": {"nvidia.com/mig-3g.20gb": 1}}
    request = read_pod({"spec": {"containers": [{"resources": limits}]}}).request
    assert request == Request(resource="nvidia.com/mig-3g.20gb", count=1, profile="3g.20gb")
    assert _name({NVIDIA: "NVIDIA-A100-SXM4-40GB"}, request) == "A100-SXM4-40GB/3g.20gb"
    assert _name({NVIDIA: "Tesla-T4"}, request) is None


def test_overrides_name_what_a_cluster_names_its_own_way() -> None:
    label = label_of({NVIDIA: "our-fast-card"})
    assert label is not None
    assert DeviceTable(Catalog.default(), {"our-fast-card": "H100"}).name(label) == "H100-SXM5-80GB"


@pytest.mark.parametrize(
    ("containers", "init", "count"),
    [
        ([{"nvidia.com/gpu": "4"}, {"nvidia.com/gpu": 2}], [], 6),
        ([{"nvidia.com/gpu": "1"}], [{"nvidia.com/gpu": "3"}], 3),
        ([{"nvidia.com/gpu": "1"}, {"amd.com/gpu": "8"}], [], 8),
    ],
)
def test_a_pod_asks_for_what_its_containers_ask_for(
    containers: list[dict[str, object]], init: list[dict[str, object]], count: int
) -> None:
    def written(asked: list[dict[str, object]]) -> list[dict[str, object]]:
        return [{"resources": {"requests": limits, "limits": limits}} for limits in asked]

    spec = {"containers": written(containers), "initContainers": written(init)}
    request = read_pod({"spec": spec}).request
    assert request is not None
    assert request.count == count


@pytest.mark.parametrize("amount", [2, "2", "2000m", "2e0", "2.0", "0.002k", "+2"])
def test_amounts_are_read_as_kubernetes_writes_them(amount: object) -> None:
    limits = {"limits": {"nvidia.com/gpu": amount}}
    request = read_pod({"spec": {"containers": [{"resources": limits}]}}).request
    assert request is not None and request.count == 2


@pytest.mark.parametrize(
    "amount", ["0", "", "-1", "1.5", "500m", "\u0662", "9E", "1" * 40, True, None, {}]
)
def test_amounts_that_are_no_count_ask_for_nothing(amount: object) -> None:
    limits = {"limits": {"nvidia.com/gpu": amount}}
    assert read_pod({"spec": {"containers": [{"resources": limits}]}}).request is None


def test_what_labels_cannot_stand_for_is_said_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_app(tmp_path, kubernetes_accelerators={"odd one": "T5", "ours": "T4"})
    (said,) = (one.getMessage() for one in caplog.records if "_ACCELERATORS" in one.getMessage())
    assert "'odd one' is 'T5', which is no accelerator" in said
