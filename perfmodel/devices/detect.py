"""What this machine has, what can be profiled on it, and what is missing: ``perfmodel doctor``."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.codec import spec_to_dict
from perfmodel.devices.cpu_facts import CpuFacts
from perfmodel.devices.extras import Extra, installed_version, read_extras
from perfmodel.devices.gpus import DetectedGpu, detect_gpus
from perfmodel.devices.local_cpu import LocalCpu
from perfmodel.devices.spec import AcceleratorSpec

#: Compilers that inductor takes.
_CPP_COMPILERS = ("g++", "clang++", "c++")


@dataclass(frozen=True, kw_only=True, slots=True)
class Ability:
    """Whether something can be profiled here.

    Parameters
    ----------
    reason : str
        What makes it possible, or what is missing and how to get it.
    """

    what: str
    possible: bool
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineReport:
    """What this machine has.

    Parameters
    ----------
    local : AcceleratorSpec or None
        Its measured description, or None if it was not measured yet.
    problems : tuple of str
        What was found but did not answer, a sentence each.
    """

    cpu: CpuFacts
    local: AcceleratorSpec | None
    gpus: tuple[DetectedGpu, ...]
    extras: tuple[Extra, ...]
    abilities: tuple[Ability, ...]
    platform: str
    python: str
    problems: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON types."""
        return {
            "platform": self.platform,
            "python": self.python,
            "cpu": {
                **asdict(self.cpu),
                "name": self.cpu.name,
                "cache_bytes_by_level": {
                    f"L{level}": size for level, size in self.cpu.cache_bytes_by_level
                },
                "flags": list(self.cpu.flags),
            },
            "local": None if self.local is None else spec_to_dict(self.local),
            "gpus": [asdict(gpu) for gpu in self.gpus],
            "extras": [_extra_to_dict(extra) for extra in self.extras],
            "abilities": [asdict(ability) for ability in self.abilities],
            "problems": list(self.problems),
        }


def describe_machine(*, local: LocalCpu | None = None, measure: bool = False) -> MachineReport:
    """Look at this machine; fast, unless it is to be measured.

    Parameters
    ----------
    measure : bool
        Measure the CPU now if that was not done before (some seconds).
    """
    local = local or LocalCpu()
    gpus, problems = detect_gpus(Catalog.default())
    extras = read_extras()
    if not extras:
        problems = (*problems, "perfmodel is not installed: run `pip install -e .` to see extras.")
    return MachineReport(
        cpu=local.facts,
        local=local.describe() if measure else local.cached(),
        gpus=gpus,
        extras=extras,
        abilities=abilities(gpus, torch=installed_version("torch")),
        platform=platform.platform(),
        python=platform.python_version(),
        problems=problems,
    )


def abilities(gpus: Sequence[DetectedGpu], *, torch: str | None) -> tuple[Ability, ...]:
    """Tell what can be profiled with these GPUs and this torch.

    Parameters
    ----------
    torch : str or None
        Version of the installed torch, whose local part names its build (``"+cpu"``).
    """
    need_train = "torch is missing: pip install 'perfmodel[train]'"
    runtime = installed_version("onnxruntime")
    found = [
        Ability(
            what="PyTorch models on the CPU",
            possible=torch is not None,
            reason=f"torch {torch}" if torch else need_train,
        ),
        Ability(
            what="models in ONNX Runtime on the CPU",
            possible=runtime is not None,
            reason=f"onnxruntime {runtime}"
            if runtime
            else "onnxruntime is missing: pip install 'perfmodel[onnx]'",
        ),
    ]
    found += _compilers(torch)
    if not gpus:
        found.append(
            Ability(what="PyTorch models on a GPU", possible=False, reason="no GPU was found")
        )
    for backend in sorted({gpu.backend for gpu in gpus}):
        found.append(_gpu_ability(backend, torch, need_train))
    return tuple(found)


def _compilers(torch: str | None) -> list[Ability]:
    """Tell what can be compiled for the CPU."""
    compiler = next((found for name in _CPP_COMPILERS if (found := shutil.which(name))), None)
    openvino = installed_version("openvino")
    return [
        Ability(
            what="torch.compile on the CPU",
            possible=torch is not None and compiler is not None,
            reason=compiler or "no C++ compiler was found: install g++ or clang",
        ),
        Ability(
            what="OpenVINO on the CPU",
            possible=openvino is not None,
            reason=f"openvino {openvino}"
            if openvino
            else "openvino is missing: pip install 'perfmodel[openvino]'",
        ),
    ]


def _gpu_ability(backend: str, torch: str | None, need_train: str) -> Ability:
    what = f"PyTorch models on the {backend} GPUs"
    if torch is None:
        return Ability(what=what, possible=False, reason=need_train)
    build = torch.partition("+")[2]
    # Wheels of the default index carry no local part and are CUDA builds on Linux.
    built_for = "cpu" if build == "cpu" else "rocm" if build.startswith("rocm") else "cuda"
    if built_for == backend:
        return Ability(what=what, possible=True, reason=f"torch {torch}")
    return Ability(
        what=what,
        possible=False,
        reason=f"torch {torch} is built for {built_for}: install its {backend} build "
        "(https://pytorch.org/get-started/locally/)",
    )


def _extra_to_dict(extra: Extra) -> dict[str, Any]:
    return {
        "name": extra.name,
        "purpose": extra.purpose,
        "installed": dict(extra.installed),
        "missing": list(extra.missing),
        "install_command": None if extra.complete else extra.install_command,
    }
