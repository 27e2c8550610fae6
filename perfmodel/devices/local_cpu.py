"""The CPU of this machine as an accelerator, described by what is measured on it, cached."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perfmodel.devices.codec import spec_from_dict, spec_to_dict
from perfmodel.devices.cpu_bench import Effort, Rates, measure_cpu
from perfmodel.devices.cpu_facts import CpuFacts, read_cpu_facts
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError

#: Raised whenever the way of measuring changes, so that older cached figures are not mixed in.
_METHOD_VERSION = 1

#: Others may use this share of the machine while it is measured, for rates that are kept for good.
MOST_OTHER_SHARE = 0.05
#: Time after which a machine that others used is measured again, seconds.
_AGAIN_AFTER_S = 60.0
#: Begins what the notes of such a description say.
_CONTENDED = "Others used"


def cache_folder() -> Path:
    """Return where this user's cached files lie.

    ``PERFMODEL_CACHE`` if set, else ``$XDG_CACHE_HOME/perfmodel``, else ``~/.cache/perfmodel``.
    """
    own = os.environ.get("PERFMODEL_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "perfmodel"


class LocalCpu:
    """Describes the CPU of this machine, measuring it the first time (some seconds).

    The description is kept as JSON, keyed by CPU model, cores, threads, the torch (or numpy)
    version and the effort: any of these changes what is reached. One that was taken while others
    used the machine says so, and is measured again when it is asked for a minute later; the
    higher of each rate is kept, since others can only lower it.

    Parameters
    ----------
    cache : Path or None
        Folder of the cached description; None: :func:`cache_folder`, asked at each call.
    effort : Effort or None
        How long and how large to measure; None: sizes that exceed the caches.
    """

    def __init__(
        self,
        *,
        cache: Path | None = None,
        effort: Effort | None = None,
        measure: Callable[[Effort], Rates] = measure_cpu,
    ) -> None:
        self._cache = cache
        self._effort = effort
        self._measure = measure

    @cached_property
    def facts(self) -> CpuFacts:
        """What the operating system says."""
        return read_cpu_facts()

    @property
    def name(self) -> str:
        """Canonical name, ``cpu-<model>-<cores>c``; measures nothing."""
        return self.facts.name

    def describe(self, *, refresh: bool = False) -> AcceleratorSpec:
        """Return the measured description.

        Returns
        -------
        AcceleratorSpec
            ``kind`` is ``"cpu"``; ``sources`` say how each figure was measured.
        """
        effort = self._effort or _effort_for(self.facts)
        key = _key(self.facts, effort)
        path = self._path(key)
        cached = None if refresh else _read_cached(path, key)
        if cached is not None and not _is_due_again(cached, path):
            return cached
        rates = self._measure(effort)
        spec = spec_of(self.facts, rates)
        if cached is not None:
            spec = spec.with_higher_rates(cached)
        _write_cached(path, key, spec)
        return spec

    def cached(self) -> AcceleratorSpec | None:
        """Return the description if this machine was measured before, else None."""
        key = _key(self.facts, self._effort or _effort_for(self.facts))
        return _read_cached(self._path(key), key)

    def _path(self, key: str) -> Path:
        digest = hashlib.sha256(key.encode()).hexdigest()[:12]
        return (self._cache or cache_folder()) / "devices" / f"{self.name}-{digest}.json"


def spec_of(facts: CpuFacts, rates: Rates) -> AcceleratorSpec:
    """Join what the system says and what was measured into one description.

    A dtype that computes slower than fp32 is left out of ``peak_flops`` and named in the notes:
    work of that type can always be widened, so that the fp32 rate bounds it.
    """
    reached = rates.gemm_flops_per_s
    widened = {
        rate: flops
        for rate, flops in reached.items()
        if rate in ("fp16", "bf16", "int8") and flops < reached["fp32"]
    }
    peaks = {rate: flops for rate, flops in reached.items() if rate not in widened}
    slower = [f"{rate} {flops / 1e9:.3g}e9" for rate, flops in widened.items()]
    notes = [
        f"{facts.thread_count} logical processors; {' '.join(facts.flags) or 'no known flags'}."
    ]
    if slower:
        notes.append(f"Slower than fp32 and left out (FLOP/s): {', '.join(slower)}.")
    if rates.other_share > MOST_OTHER_SHARE:
        notes.append(f"{_CONTENDED} {rates.other_share:.0%} of the machine meanwhile.")
    return AcceleratorSpec(
        name=facts.name,
        kind="cpu",
        vendor=facts.vendor,
        architecture=facts.machine,
        form_factor="host",
        year=None,
        peak_flops=MappingProxyType(peaks),
        memory_bytes=float(facts.memory_bytes),
        bandwidth_bytes_per_s=rates.bandwidth_bytes_per_s,
        cache_bytes=float(facts.last_level_cache_bytes) if facts.last_level_cache_bytes else None,
        core_count=facts.core_count,
        clock_hz=facts.clock_hz,
        sources=MappingProxyType(
            {
                "*": "operating system (/proc/cpuinfo, /proc/meminfo, /sys)",
                "peak_flops": f"measured: best square matrix product, {rates.engine}",
                "bandwidth_bytes_per_s": f"measured: best of triad, copy and sum, {rates.engine}",
            }
        ),
        notes=" ".join(notes),
    )


def _is_due_again(spec: AcceleratorSpec, path: Path) -> bool:
    """Whether a kept description was taken beside others, and is old enough to try once more."""
    if _CONTENDED not in spec.notes:
        return False
    try:
        return abs(time.time() - path.stat().st_mtime) > _AGAIN_AFTER_S
    except OSError:
        return True


def kept_spec(
    name: str, facts: Mapping[str, Any], make: Callable[[], AcceleratorSpec]
) -> AcceleratorSpec:
    """Return the kept description of a device, made when facts or software are others.

    Parameters
    ----------
    name : str
        Part of the name of the file.
    facts : mapping
        What its driver says, as JSON types.
    make : callable
        Measures and describes it; takes time.
    """
    document = {"method": _METHOD_VERSION, "facts": dict(facts), "software": _software()}
    key = json.dumps(document, sort_keys=True)
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    path = cache_folder() / "devices" / f"{name}-{digest}.json"
    cached = _read_cached(path, key)
    if cached is not None:
        return cached
    spec = make()
    _write_cached(path, key, spec)
    return spec


def _effort_for(facts: CpuFacts) -> Effort:
    """Take arrays of four caches, between 128 MiB and 512 MiB and at most 1/32 of the memory."""
    wanted = 4 * (facts.last_level_cache_bytes or 64 * 2**20)
    size = min(max(wanted, 128 * 2**20), 512 * 2**20, facts.memory_bytes // 32)
    return Effort(stream_bytes=size // 4096 * 4096)


def _key(facts: CpuFacts, effort: Effort) -> str:
    return json.dumps(
        {
            "method": _METHOD_VERSION,
            "model": facts.model,
            "cores": facts.core_count,
            "logical": facts.thread_count,
            "threads": _compute_threads(facts),
            "software": _software(),
            "gemm_size": effort.gemm_size,
            "stream_bytes": effort.stream_bytes,
        },
        sort_keys=True,
    )


def _compute_threads(facts: CpuFacts) -> int:
    """Return the threads torch computes with, without importing it for that."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_num_threads"):
        return int(torch.get_num_threads())
    stated = os.environ.get("OMP_NUM_THREADS", "")
    return int(stated) if stated.isdigit() and int(stated) > 0 else facts.core_count


def _software() -> str:
    for library in ("torch", "numpy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return f"{library} {importlib.metadata.version(library)}"
    return "unknown"


def _read_cached(path: Path, key: str) -> AcceleratorSpec | None:
    """Return the cached description; a file that is absent, damaged or another's counts as none."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return spec_from_dict(stored["spec"]) if stored["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError, InvalidInputError):
        return None


def _write_cached(path: Path, key: str, spec: AcceleratorSpec) -> None:
    """Write the description in one step; a folder that cannot be written costs only time."""
    text = json.dumps({"key": key, "spec": spec_to_dict(spec)}, indent=1)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, suffix=".tmp", delete=False, encoding="utf-8"
        ) as draft:
            draft.write(text)
        os.replace(draft.name, path)
