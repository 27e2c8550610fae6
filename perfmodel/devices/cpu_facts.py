"""What the operating system says about the CPU of this machine, without measuring anything."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

#: Canonical names of CPUs begin so.
CPU_PREFIX = "cpu-"

_SIZE_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3}
_NOISE = re.compile(r"\((?:r|tm)\)|@.*$|\b\d+-core\b|\b(?:processor|cpu)\b", re.IGNORECASE)
#: Instruction sets that change what a matrix product costs, as Linux names them.
_MATRIX_FLAGS = (
    "avx2",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_bf16",
    "amx_int8",
    "amx_fp16",
    "asimd",
    "sve",
    "i8mm",
    "bf16",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuFacts:
    """The CPU that this process may use.

    Parameters
    ----------
    model : str
        Model name as the processor states it, for example ``"AMD EPYC 9654 96-Core Processor"``.
    vendor : str
        ``"AMD"``, ``"Intel"``, ``"Arm"`` or what the system says.
    machine : str
        Instruction set family, for example ``"x86_64"``.
    core_count : int
        Physical cores that this process may run on.
    thread_count : int
        Logical processors that this process may run on.
    cache_bytes_by_level : tuple of (int, int)
        (level, bytes of all data caches of that level that those cores use), ascending.
    clock_hz : float or None
        Highest clock that the system states.
    flags : tuple of str
        Instruction sets that matter to matrix products.
    """

    model: str
    vendor: str
    machine: str
    core_count: int
    thread_count: int
    cache_bytes_by_level: tuple[tuple[int, int], ...]
    memory_bytes: int
    clock_hz: float | None
    flags: tuple[str, ...]

    @property
    def last_level_cache_bytes(self) -> int | None:
        """Bytes of the largest cache level, or None where the system does not say."""
        return self.cache_bytes_by_level[-1][1] if self.cache_bytes_by_level else None

    @property
    def name(self) -> str:
        """Canonical accelerator name: ``cpu-<model>-<cores>c``."""
        return f"{CPU_PREFIX}{model_slug(self.model)}-{self.core_count}c"


def model_slug(model: str) -> str:
    """Return a processor's model name as lower-case words joined by ``-``.

    Examples
    --------
    >>> model_slug("Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.00GHz")
    'intel-xeon-platinum-8480-plus'
    >>> model_slug("AMD EPYC 9654 96-Core Processor")
    'amd-epyc-9654'
    """
    bare = _NOISE.sub(" ", model.replace("+", "-plus ")).casefold()
    return "-".join(re.findall(r"[0-9a-z]+", bare)) or "unknown"


def read_cpu_facts(*, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> CpuFacts:
    """Read the facts of the CPUs that this process may run on.

    Parameters
    ----------
    proc, sys : Path
        Where Linux shows processes and devices. What is absent there (other systems) is taken
        from :mod:`platform` or left unknown.
    """
    info = _first_processor(proc / "cpuinfo")
    cpus = usable_cpus()
    topology = sys / "devices/system/cpu"
    return CpuFacts(
        model=info.get("model name") or platform.processor() or platform.machine() or "unknown",
        vendor=_vendor(info),
        machine=platform.machine() or "unknown",
        core_count=max(1, len(_physical_cores(topology, cpus))),
        thread_count=len(cpus),
        cache_bytes_by_level=_caches(topology, cpus),
        memory_bytes=_memory_bytes(proc / "meminfo"),
        clock_hz=_clock_hz(topology, cpus, info),
        flags=_flags(info),
    )


def usable_cpus() -> tuple[int, ...]:
    """Return the numbers of the logical cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def _first_processor(cpuinfo: Path) -> dict[str, str]:
    """Return the fields of the first processor; later ones repeat them."""
    fields: dict[str, str] = {}
    for line in (_read(cpuinfo) or "").splitlines():
        key, colon, value = line.partition(":")
        if not colon:
            break
        fields[key.strip()] = value.strip()
    return fields


def _vendor(info: dict[str, str]) -> str:
    stated = info.get("vendor_id") or ("Arm" if "CPU implementer" in info else "")
    return {"AuthenticAMD": "AMD", "GenuineIntel": "Intel"}.get(stated, stated) or "unknown"


def _flags(info: dict[str, str]) -> tuple[str, ...]:
    present = set((info.get("flags") or info.get("Features") or "").split())
    return tuple(flag for flag in _MATRIX_FLAGS if flag in present)


def usable_cores() -> tuple[int, ...]:
    """Return one logical processor of each physical core that this process may run on."""
    return tuple(_physical_cores(Path("/sys/devices/system/cpu"), usable_cpus()))


def _physical_cores(topology: Path, cpus: Iterable[int]) -> list[int]:
    """Return the first of each distinct (package, core), so that two threads of a core are one."""
    first: dict[tuple[str | None, str | int], int] = {}
    for cpu in cpus:
        folder = topology / f"cpu{cpu}/topology"
        core = _read(folder / "core_id")
        place = (_read(folder / "physical_package_id"), core if core is not None else cpu)
        first.setdefault(place, cpu)
    return list(first.values())


def _caches(topology: Path, cpus: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Sum the distinct data caches per level; one shared by several cores counts once."""
    instances: dict[tuple[int, str], int] = {}
    for cpu in cpus:
        for folder in sorted((topology / f"cpu{cpu}/cache").glob("index*")):
            level, size = _read(folder / "level"), _read(folder / "size")
            if level is None or not size or _read(folder / "type") == "Instruction":
                continue
            sharers = _read(folder / "shared_cpu_list") or str(cpu)
            instances[int(level), sharers] = _parse_size(size)
    levels = sorted({level for level, _ in instances})
    return tuple((n, sum(b for (level, _), b in instances.items() if level == n)) for n in levels)


def _parse_size(size: str) -> int:
    number, unit = (size[:-1], size[-1]) if size[-1] in _SIZE_UNITS else (size, "")
    return int(number) * _SIZE_UNITS.get(unit, 1)


def _memory_bytes(meminfo: Path) -> int:
    found = re.search(r"^MemTotal:\s+(\d+) kB", _read(meminfo) or "", re.MULTILINE)
    if found:
        return int(found.group(1)) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _clock_hz(topology: Path, cpus: tuple[int, ...], info: dict[str, str]) -> float | None:
    stated_khz = _read(topology / f"cpu{cpus[0]}/cpufreq/cpuinfo_max_freq")
    if stated_khz:
        return float(stated_khz) * 1e3
    # Virtual machines show the nominal clock only.
    shown_mhz = info.get("cpu MHz")
    return float(shown_mhz) * 1e6 if shown_mhz else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
