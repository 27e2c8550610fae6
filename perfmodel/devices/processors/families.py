"""CPUs of the catalogue: a row a model, what models share once a family."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfmodel.devices.codec import spec_from_dict
from perfmodel.devices.spec import AcceleratorSpec

_CHANNEL_BYTES, _GIB, _MIB = 8, 2**30, 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class Processors:
    """CPUs, and how else they are called.

    Parameters
    ----------
    specs : mapping of str to AcceleratorSpec
        By canonical name.
    aliases : mapping of str to str
        Written name to canonical name; none that two models would share.
    """

    specs: Mapping[str, AcceleratorSpec]
    aliases: Mapping[str, str]


def read_processors(text: str) -> Processors:
    """Read families of CPUs; ``families.toml`` says what its fields mean.

    Peaks are cores times FLOP per cycle times clock, summed over the kinds of cores, or those of
    the matrix units that cores share where those are higher.

    Raises
    ------
    InvalidInputError
        A figure that makes no sense, with its JSON pointer.

    Examples
    --------
    >>> found = read_processors('''
    ... [sources]
    ... "*" = "recalled"
    ... [families."Toy"]
    ... vendor = "us"
    ... architecture = "v1"
    ... form_factor = "AM9"
    ... year = 2020
    ... flop_per_cycle = { fp32 = 32 }
    ... of_efficient_cores = { fp32 = 16 }
    ... memory = [2, 3.2e9, 16]
    ... pcie = 4
    ... models = { Core-i7-1K = [[2, 4], [5.0, 2.5], 8, 65] }
    ... ''')
    >>> found.specs["Core-i7-1K"].peak_flops["fp32"], found.aliases["i7-1K"]
    (480000000000.0, 'Core-i7-1K')
    """
    read = tomllib.loads(text)
    families = read["families"].values()
    rows = [(name, family, row) for family in families for name, row in family["models"].items()]
    written = [(alias, name) for name, family, _ in rows for alias in _aliases(name, family)]
    often = Counter(alias.casefold() for alias, _ in written)
    return Processors(
        specs={
            name: spec_from_dict(
                {"name": name, "sources": read["sources"], **_table(family, *row)},
                pointer=f"/families/{name}",
            )
            for name, family, row in rows
        },
        aliases={alias: name for alias, name in written if often[alias.casefold()] == 1},
    )


def _table(
    family: Mapping[str, Any],
    cores: int | Sequence[int],
    clocks: float | Sequence[float],
    cache_mib: float,
    tdp_w: float = 0,
    base_ghz: float = 0,
) -> dict[str, Any]:
    """Return the fields of a model; 0 stands for unknown."""
    counts = [cores] if isinstance(cores, int) else list(cores)
    speeds = [_hz(one) for one in (clocks if isinstance(clocks, Sequence) else [clocks])]
    channels, rate, module_gib = family["memory"]
    known = {
        "peak_flops": _peaks(family, counts, speeds),
        "memory_bytes": channels * module_gib * _GIB,
        "bandwidth_bytes_per_s": _rounded(channels * _CHANNEL_BYTES * rate),
        "cache_bytes": int(cache_mib * _MIB),
        "core_count": sum(counts),
        "clock_hz": speeds[0],
        "sustained_clock_hz": _hz(base_ghz) or None,
        "peak_flops_fp16_accumulate": _rounded(
            counts[0] * speeds[0] * family.get("fp16_accumulate", 0)
        ),
        "tdp_w": tdp_w,
        "pcie_generation": family.get("pcie"),
    }
    named = {key: family[key] for key in ("vendor", "architecture", "form_factor", "year")}
    return {"kind": "cpu", **named, **{key: value for key, value in known.items() if value}}


def _peaks(
    family: Mapping[str, Any], counts: Sequence[int], speeds: Sequence[float]
) -> dict[str, float]:
    of_core = [family["flop_per_cycle"], family.get("of_efficient_cores", {})]
    of_unit = family.get("flop_per_cycle_of_unit", {})
    peaks = {}
    for rate in of_core[0]:
        cores = sum(n * hz * per[rate] for n, hz, per in zip(counts, speeds, of_core, strict=False))
        units = family.get("units", 0) * speeds[0] * of_unit.get(rate, 0)
        peaks[rate] = _rounded(max(cores, units))
    return peaks


def _hz(ghz: float) -> float:
    return _rounded(ghz * 1e9)


def _rounded(figure: float) -> float:
    return float(f"{figure:.6g}")


def _aliases(name: str, family: Mapping[str, Any]) -> Iterator[str]:
    """Yield how else a CPU is called: without its line, or with its line and number alone.

    ``Core-i7-12700H``: ``i7-12700H``; ``Ryzen-9-7950X``: ``Ryzen-7950X``, ``7950X``.
    """
    bare = name.removesuffix(family.get("without", ""))
    for full in dict.fromkeys((name, bare, *(name + one for one in family.get("left_out", "")))):
        line, *rest = full.split("-")
        number = "-".join(rest[-2:] if rest[-1:] == ["Plus"] else rest[-1:])
        if full != name:
            yield full
        shorter = ("-".join(rest), f"{line}-{number}", number)
        yield from dict.fromkeys(one for one in shorter if one != full and _tells(one))


def _tells(written: str) -> bool:
    """Tell whether a name is no bare number, count or line of products."""
    has_both = re.search(r"\d", written) and re.search(r"[A-Za-z]", written)
    return bool(has_both) and len(written) > 3 and not re.match(r"\d{1,2}-", written)
