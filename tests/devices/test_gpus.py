"""What vendors' tools print becomes GPUs of the catalogue; tools that fail are named."""

import json
import subprocess

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.gpus import detect_gpus, parse_nvidia_smi, parse_rocm_smi

CATALOG = Catalog.default()
NVIDIA = (
    "NVIDIA A100-SXM4-80GB, 81920, 550.54.15, Disabled\n"
    "NVIDIA A100-SXM4-80GB, 81920, 550.54.15, Enabled\n"
    "Tesla T4, 15360, 550.54.15, [N/A]\n"
    "NVIDIA Mystery 9000, [N/A], 550.54.15, [N/A]\n"
)
ROCM = "WARNING: something first\n" + json.dumps(
    {
        "card0": {
            "VRAM Total Memory (B)": "206141652992",
            "Card Series": "N/A",
            "Card Model": "AMD Instinct MI300X OAM",
        },
        "system": {"Driver version": "6.7.0"},
    }
)


def _runner(answers):
    def run(command):
        answer = answers.get(command[0], FileNotFoundError(command[0]))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return run


def test_nvidia_smi_lines():
    whole, sliced, t4, unknown = parse_nvidia_smi(NVIDIA, CATALOG)
    assert whole.accelerator == "A100-SXM4-80GB"
    assert whole.memory_bytes == 81920 * 2**20
    assert (whole.partitioned, sliced.partitioned) == (False, True)
    assert (t4.accelerator, t4.backend, t4.driver) == ("T4", "cuda", "550.54.15")
    assert (unknown.accelerator, unknown.memory_bytes) == (None, None)


def test_rocm_smi_takes_the_field_that_the_catalogue_knows():
    (gpu,) = parse_rocm_smi(ROCM, CATALOG)
    assert (gpu.accelerator, gpu.backend) == ("MI300X", "rocm")
    assert gpu.memory_bytes == 206141652992


def test_a_rocm_card_without_a_known_name_is_kept():
    (gpu,) = parse_rocm_smi('{"card0": {"Card Series": "Mystery"}}', CATALOG)
    assert (gpu.name, gpu.accelerator, gpu.memory_bytes) == ("Mystery", None, None)


def test_both_tools_are_asked():
    run = _runner({"nvidia-smi": NVIDIA, "rocm-smi": ROCM})
    gpus, problems = detect_gpus(CATALOG, run=run, ask_torch=False)
    assert [gpu.found_by for gpu in gpus] == ["nvidia-smi"] * 4 + ["rocm-smi"]
    assert problems == ()


def test_absent_tools_are_no_problem():
    assert detect_gpus(CATALOG, run=_runner({}), ask_torch=False) == ((), ())


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            subprocess.CalledProcessError(9, "nvidia-smi", output="NVIDIA-SMI has failed\nmore"),
            "NVIDIA-SMI has failed",
        ),
        (subprocess.TimeoutExpired("nvidia-smi", 20), "timed out"),
        (PermissionError("denied"), "denied"),
        ("one, two\n", "expected 4 columns, got 2"),
    ],
)
def test_a_tool_that_fails_is_named_and_nothing_raised(answer, said):
    gpus, (problem,) = detect_gpus(CATALOG, run=_runner({"nvidia-smi": answer}), ask_torch=False)
    assert gpus == ()
    assert problem.startswith("nvidia-smi") and said in problem


@pytest.mark.parametrize("text", ["", "no json", "[1]", "{"])
def test_rocm_nonsense_is_a_problem_not_a_crash(text):
    gpus, problems = detect_gpus(CATALOG, run=_runner({"rocm-smi": text}), ask_torch=False)
    assert gpus == () and len(problems) == 1


def test_torch_is_asked_where_the_tools_find_nothing():
    torch = pytest.importorskip("torch")
    gpus, problems = detect_gpus(CATALOG, run=_runner({}), ask_torch=True)
    assert len(gpus) == (torch.cuda.device_count() if torch.cuda.is_available() else 0)
    assert problems == ()


def test_cards_with_one_chip_are_told_from_cards_with_less_of_it() -> None:
    catalog = Catalog.default()
    chips = {name: catalog.get(name).chip for name in ("A100-SXM4-80GB", "A100-PCIe-40GB", "A10")}
    assert chips["A100-SXM4-80GB"] == chips["A100-PCIe-40GB"] != chips["A10"]
    # One die, other numbers of cores enabled: 84 and 82.
    assert catalog.get("RTX-A6000").chip != catalog.get("RTX-3090").chip
