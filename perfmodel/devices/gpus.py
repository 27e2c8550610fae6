"""Which GPUs this machine has, asked of the vendors' tools first and of torch last."""

from __future__ import annotations

import csv
import importlib.util
import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.drivers.device_facts import DeviceFacts
from perfmodel.devices.drivers.identity import identify
from perfmodel.errors import UnknownAcceleratorError

Backend = Literal["cuda", "rocm"]

#: Runs a command and returns what it printed, or raises OSError or SubprocessError.
Runner = Callable[[Sequence[str]], str]

_NVIDIA_SMI = (
    "nvidia-smi",
    "--query-gpu=name,memory.total,driver_version,mig.mode.current",
    "--format=csv,noheader,nounits",
)
_ROCM_SMI = ("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json")
_TOOL_TIMEOUT_S = 20.0
#: Device files of the two vendors' drivers; where none exists, torch is not asked.
_DRIVER_FILES = (Path("/dev/nvidiactl"), Path("/dev/dxg"), Path("/dev/kfd"))


@dataclass(frozen=True, kw_only=True, slots=True)
class DetectedGpu:
    """One GPU of this machine.

    Parameters
    ----------
    name : str
        As its vendor's tool prints it.
    accelerator : str or None
        Canonical name, or None if the catalogue does not know it.
    partitioned : bool
        True while MIG is on: then it is not one whole accelerator.
    """

    name: str
    backend: Backend
    accelerator: str | None
    memory_bytes: int | None
    driver: str | None
    partitioned: bool
    found_by: str


def detect_gpus(
    catalog: Catalog,
    *,
    run: Runner | None = None,
    ask_torch: bool | None = None,
) -> tuple[tuple[DetectedGpu, ...], tuple[str, ...]]:
    """Find the GPUs of this machine.

    Parameters
    ----------
    run : callable or None
        Runs a tool; None: a child process with a time limit.
    ask_torch : bool or None
        Whether to ask torch where the tools find nothing; None: only if a driver is present, since
        importing torch takes seconds.

    Returns
    -------
    gpus : tuple of DetectedGpu
        In the tools' order.
    problems : tuple of str
        What was present but did not answer, a sentence each.
    """
    run = run or _run_tool
    gpus: list[DetectedGpu] = []
    problems: list[str] = []
    for command, parse in ((_NVIDIA_SMI, parse_nvidia_smi), (_ROCM_SMI, parse_rocm_smi)):
        try:
            gpus.extend(parse(run(command), catalog))
        except FileNotFoundError:
            continue
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            problems.append(f"{command[0]} is installed but did not answer: {_reason(error)}")
    if ask_torch is None:
        ask_torch = any(path.exists() for path in _DRIVER_FILES)
    if not gpus and ask_torch and importlib.util.find_spec("torch") is not None:
        found, problem = _torch_gpus(catalog)
        gpus.extend(found)
        problems.extend(problem)
    return tuple(gpus), tuple(problems)


def parse_nvidia_smi(text: str, catalog: Catalog) -> list[DetectedGpu]:
    """Read the CSV of ``nvidia-smi --query-gpu=name,memory.total,driver_version,mig...``.

    Parameters
    ----------
    text : str
        One line a GPU, memory in MiB.

    Raises
    ------
    ValueError
        If a line has other columns.
    """
    gpus = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        if not row:
            continue
        if len(row) != 4:
            raise ValueError(f"expected 4 columns, got {len(row)}: {', '.join(row)[:200]}")
        name, memory_mib, driver, mig = (cell.strip() for cell in row)
        memory_bytes = int(memory_mib) * 2**20 if memory_mib.isdigit() else None
        gpus.append(
            DetectedGpu(
                name=name,
                backend="cuda",
                accelerator=_identified(name, "cuda", memory_bytes, catalog),
                memory_bytes=memory_bytes,
                driver=driver or None,
                partitioned=mig == "Enabled",
                found_by="nvidia-smi",
            )
        )
    return gpus


def parse_rocm_smi(text: str, catalog: Catalog) -> list[DetectedGpu]:
    """Read the JSON of ``rocm-smi --showproductname --showmeminfo vram --json``.

    Parameters
    ----------
    text : str
        An object with one member a card; the names of its fields differ between versions.

    Raises
    ------
    ValueError
        If it is no such JSON.
    """
    # rocm-smi prints warnings before the object.
    cards = json.loads(text[max(text.find("{"), 0) :])
    if not isinstance(cards, dict):
        raise ValueError("expected an object with one member a card")
    gpus = []
    for key, card in cards.items():
        if not key.startswith("card") or not isinstance(card, dict):
            continue
        name = _rocm_name(card, catalog)
        vram = str(card.get("VRAM Total Memory (B)", ""))
        memory_bytes = int(vram) if vram.isdigit() else None
        gpus.append(
            DetectedGpu(
                name=name,
                backend="rocm",
                accelerator=_identified(name, "rocm", memory_bytes, catalog),
                memory_bytes=memory_bytes,
                driver=None,
                partitioned=False,
                found_by="rocm-smi",
            )
        )
    return gpus


def _rocm_name(card: dict[str, Any], catalog: Catalog) -> str:
    """Return the field that the catalogue knows, else the first that names the card."""
    named = [
        str(value)
        for field, value in card.items()
        if field.lower() in ("card series", "card model", "product name", "device name")
    ]
    known = [name for name in named if _canonical(name, catalog) is not None]
    return (known or named or ["unknown AMD GPU"])[0]


def _canonical(name: str, catalog: Catalog) -> str | None:
    try:
        return catalog.canonical_name(name)
    except UnknownAcceleratorError:
        return None


def _identified(
    name: str, backend: Backend, memory_bytes: int | None, catalog: Catalog
) -> str | None:
    """Return the card that a name and a memory mean, as the profilers identify it."""
    memory = None if memory_bytes is None else float(memory_bytes)
    facts = DeviceFacts(name=name, backend=backend, memory_bytes=memory)
    found = identify(facts, catalog).accelerator
    return None if found is None else found.name


def _torch_gpus(catalog: Catalog) -> tuple[list[DetectedGpu], list[str]]:
    try:
        import torch

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        facts = [torch.cuda.get_device_properties(index) for index in range(count)]
    except (ImportError, OSError, RuntimeError, AssertionError) as error:
        return [], [f"torch could not list GPUs: {_reason(error)}"]
    backend: Backend = "rocm" if torch.version.hip else "cuda"
    return [
        DetectedGpu(
            name=fact.name,
            backend=backend,
            accelerator=_identified(fact.name, backend, int(fact.total_memory), catalog),
            memory_bytes=int(fact.total_memory),
            driver=None,
            partitioned="MIG" in fact.name,
            found_by="torch",
        )
        for fact in facts
    ], []


def _run_tool(command: Sequence[str]) -> str:
    path = shutil.which(command[0])
    if path is None:
        raise FileNotFoundError(command[0])
    done = subprocess.run(
        [path, *command[1:]],
        capture_output=True,
        text=True,
        timeout=_TOOL_TIMEOUT_S,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout


def _reason(error: BaseException) -> str:
    """Return what a tool said before it failed, else the error's own words."""
    said = getattr(error, "stderr", None) or getattr(error, "stdout", None) or str(error)
    lines = str(said).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
