"""The report on this machine: complete, plain JSON, quick, and right about what can be done."""

import json
import subprocess
import sys

import pytest

from perfmodel.devices import cpu_bench
from perfmodel.devices.cpu_bench import Effort
from perfmodel.devices.detect import abilities, describe_machine
from perfmodel.devices.gpus import DetectedGpu
from perfmodel.devices.local_cpu import LocalCpu

QUICK = Effort(gemm_size=128, gemm_budget_s=0.01, stream_bytes=2**22, stream_budget_s=0.01)


def _gpu(backend):
    return DetectedGpu(
        name="x",
        backend=backend,
        accelerator=None,
        memory_bytes=None,
        driver=None,
        partitioned=False,
        found_by="test",
    )


def test_this_machine_unmeasured_and_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(cpu_bench, "_PROBE_BUDGET_S", 0.03)
    local = LocalCpu(cache=tmp_path, effort=QUICK)
    assert describe_machine(local=local).local is None
    measured = describe_machine(local=local, measure=True)
    assert measured.local is not None and measured.local.name == measured.cpu.name
    assert describe_machine(local=local).local == measured.local
    report = measured.to_dict()
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert report["cpu"]["name"] == report["local"]["name"]


def test_looking_imports_no_torch():
    code = (
        "import sys; from perfmodel.devices.gpus import detect_gpus; "
        "from perfmodel.devices.catalog import Catalog; "
        "from perfmodel.devices.extras import read_extras; "
        "from perfmodel.devices import detect; "
        "read_extras(); detect_gpus(Catalog.default(), ask_torch=False); "
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("torch", "backend", "possible"),
    [
        ("2.13.0+cpu", "cuda", False),
        ("2.13.0+cu128", "cuda", True),
        ("2.13.0", "cuda", True),
        ("2.13.0+rocm6.4", "rocm", True),
        ("2.13.0+rocm6.4", "cuda", False),
        ("2.13.0", "rocm", False),
        (None, "cuda", False),
    ],
)
def test_a_gpu_needs_a_torch_built_for_it(torch, backend, possible):
    found = abilities([_gpu(backend)], torch=torch)
    assert found[-1].possible is possible
    assert backend in found[-1].what


def test_without_torch_the_extra_is_named():
    cpu = abilities([], torch=None)[0]
    assert not cpu.possible and "perfmodel[train]" in cpu.reason


def test_no_gpu_is_said():
    assert abilities([], torch="2.13.0")[-1].reason == "no GPU was found"
