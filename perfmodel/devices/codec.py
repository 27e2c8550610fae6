"""AcceleratorSpec to a plain dict and back, with every field checked on the way in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, get_args

from perfmodel.devices.spec import RATES, AcceleratorSpec, Kind
from perfmodel.errors import InvalidInputError
from perfmodel.json_values import (
    as_count,
    as_flag,
    as_number,
    as_object,
    as_text,
    shown,
)

_KINDS: tuple[str, ...] = get_args(Kind)
_REQUIRED = (
    "name", "kind", "vendor", "architecture", "form_factor", "memory_bytes",
    "bandwidth_bytes_per_s", "peak_flops",
)  # fmt: skip
#: What reads fields of one value.
_READ: Mapping[Callable[[str, object, str], object], tuple[str, ...]] = {
    as_text: ("name", "kind", "vendor", "architecture", "form_factor", "link", "notes"),
    as_number: (
        "memory_bytes", "bandwidth_bytes_per_s", "peak_flops_fp16_accumulate",
        "matmul_flops_per_s", "cache_bytes", "clock_hz", "sustained_clock_hz", "tdp_w",
        "pcie_generation", "link_bandwidth_bytes_per_s",
    ),
    as_count: ("year", "core_count"),
    as_flag: ("has_fp4",),
}  # fmt: skip
_FIELDS = tuple(field.name for field in fields(AcceleratorSpec))
#: What no device lies outside of, by far; a number that does is in another unit.
_FLOPS = (1e6, 1e19)
_EXTENTS: Mapping[str, tuple[float, float]] = {
    "peak_flops_fp16_accumulate": _FLOPS, "matmul_flops_per_s": _FLOPS,
    "memory_bytes": (1e6, 1e17), "bandwidth_bytes_per_s": (1e6, 1e17),
    "link_bandwidth_bytes_per_s": (1e3, 1e17), "cache_bytes": (1.0, 1e15),
    "clock_hz": (1e3, 1e12), "sustained_clock_hz": (1e3, 1e12), "tdp_w": (1e-3, 1e6),
}  # fmt: skip


def spec_to_dict(spec: AcceleratorSpec) -> dict[str, Any]:
    """Return a spec as plain JSON types; what is unknown (None), empty or not so is left out.

    Returns
    -------
    dict of str to object
        Fresh containers that share nothing with the spec; :func:`spec_from_dict` takes it back.
    """
    plain: dict[str, Any] = {}
    for name in _FIELDS:
        value = getattr(spec, name)
        if value is None or value is False or value == "" or value == {}:
            continue
        plain[name] = dict(value) if isinstance(value, Mapping) else value
    return plain


def spec_from_dict(plain: Mapping[str, Any], *, pointer: str = "") -> AcceleratorSpec:
    """Build a spec from plain JSON types.

    Parameters
    ----------
    plain : mapping of str to object
        As :func:`spec_to_dict` writes it; every number in SI units, finite and > 0.
    pointer : str
        JSON pointer to ``plain`` in what the caller sent, for the error.

    Raises
    ------
    InvalidInputError
        For an unknown or missing field, a rate that is not in :data:`RATES`, a number that is
        not finite and > 0, or a value of the wrong type; carries the pointer.

    Examples
    --------
    >>> spec = spec_from_dict({"name": "toy", "kind": "npu", "vendor": "us", "architecture": "v1",
    ...                        "form_factor": "chip", "peak_flops": {"bf16": 1e12},
    ...                        "memory_bytes": 1e9, "bandwidth_bytes_per_s": 1e11})
    >>> spec.peak_flops["bf16"] / spec.bandwidth_bytes_per_s
    10.0
    """
    _check_field_names(plain, pointer)
    if plain["kind"] not in _KINDS:
        raise InvalidInputError(
            f"Unknown kind {shown(plain['kind'])} of accelerator {shown(plain['name'])}. "
            f"Known: {', '.join(_KINDS)}.",
            pointer=f"{pointer}/kind",
            allowed=_KINDS,
        )
    values: dict[str, Any] = {"year": None}
    for read, names in _READ.items():
        for name in names:
            given = plain.get(name)
            is_blank = name == "notes" and isinstance(given, str) and not given.strip()
            if given is not None and not is_blank:
                values[name] = read(name, given, f"{pointer}/{name}")
    values["peak_flops"] = _rates(plain["peak_flops"], f"{pointer}/peak_flops")
    values["sources"] = _sources(plain.get("sources", {}), f"{pointer}/sources")
    return AcceleratorSpec(**values)


def stated_spec(plain: Mapping[str, Any]) -> AcceleratorSpec:
    """Build a spec from what a person stated; as :func:`spec_from_dict`.

    Raises
    ------
    InvalidInputError
        Also for a number that no device has, which is in another unit.
    """
    spec = spec_from_dict(plain)
    stated = {name: (getattr(spec, name), extent) for name, extent in _EXTENTS.items()}
    for rate, peak in spec.peak_flops.items():
        stated[f"peak_flops/{rate}"] = peak, _FLOPS
    for name, (value, (low, high)) in stated.items():
        if value is not None and not low <= value <= high:
            raise InvalidInputError(
                f"{name} is from {low:g} to {high:g} on any device, in units without prefixes "
                f"(FLOP/s, bytes, Hz, W); got {value:g}.",
                pointer=f"/{name}",
            )
    return spec


def _check_field_names(plain: Mapping[str, Any], pointer: str) -> None:
    as_object(plain, pointer, what="An accelerator", known=_FIELDS)
    for name in _REQUIRED:
        if plain.get(name) is None:
            raise InvalidInputError(
                f"Accelerator {plain.get('name', '')!r} lacks the field {name!r}. Add it.",
                pointer=f"{pointer}/{name}",
            )


def _rates(value: object, pointer: str) -> Mapping[str, float]:
    if not isinstance(value, Mapping) or not value:
        raise InvalidInputError(
            f"peak_flops must state at least one of {', '.join(RATES)}; got {shown(value)}.",
            pointer=pointer,
            allowed=RATES,
        )
    for rate in value:
        if rate not in RATES:
            raise InvalidInputError(
                f"Unknown rate {rate!r}. Known: {', '.join(RATES)}.",
                pointer=f"{pointer}/{rate}",
                allowed=RATES,
            )
    return MappingProxyType(
        {k: as_number(f"peak_flops of {k}", v, f"{pointer}/{k}") for k, v in value.items()}
    )


def _sources(value: object, pointer: str) -> Mapping[str, str]:
    value = as_object(value, pointer, what="sources")
    for key in value:
        if key != "*" and key not in _FIELDS:
            raise InvalidInputError(
                f"sources names the field {key!r}, which an accelerator does not have. "
                "Use a field name or '*'.",
                pointer=f"{pointer}/{key}",
            )
        as_text(key, value[key], f"{pointer}/{key}")
    return MappingProxyType(dict(value))
