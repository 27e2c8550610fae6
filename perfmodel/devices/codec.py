"""AcceleratorSpec to a plain dict and back, with every field checked on the way in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, cast, get_args

from perfmodel.devices.spec import RATES, AcceleratorSpec, Kind
from perfmodel.errors import InvalidInputError

_KINDS: tuple[str, ...] = get_args(Kind)
_REQUIRED_TEXTS = ("name", "kind", "vendor", "architecture", "form_factor")
_REQUIRED_NUMBERS = ("memory_bytes", "bandwidth_bytes_per_s")
_OPTIONAL_NUMBERS = (
    "peak_flops_fp16_accumulate",
    "matmul_flops_per_s",
    "cache_bytes",
    "clock_hz",
    "sustained_clock_hz",
    "tdp_w",
    "pcie_generation",
    "link_bandwidth_bytes_per_s",
)
_OPTIONAL_INTEGERS = ("year", "core_count")
_OPTIONAL_FLAGS = ("has_fp4",)
_FIELDS = tuple(field.name for field in fields(AcceleratorSpec))


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
    values: dict[str, Any] = {name: _text(plain, name, pointer) for name in _REQUIRED_TEXTS}
    if values["kind"] not in _KINDS:
        raise InvalidInputError(
            f"Unknown kind {values['kind']!r} of accelerator {values['name']!r}. "
            f"Known: {', '.join(_KINDS)}.",
            pointer=f"{pointer}/kind",
            allowed=_KINDS,
        )
    values |= {name: _positive(plain[name], f"{pointer}/{name}") for name in _REQUIRED_NUMBERS}
    for name in _OPTIONAL_NUMBERS:
        given = plain.get(name)
        values[name] = None if given is None else _positive(given, f"{pointer}/{name}")
    for name in _OPTIONAL_INTEGERS:
        given = plain.get(name)
        values[name] = None if given is None else _count(given, f"{pointer}/{name}")
    for name in _OPTIONAL_FLAGS:
        given = plain.get(name)
        values[name] = False if given is None else _flag(given, f"{pointer}/{name}")
    values["link"] = None if plain.get("link") is None else _text(plain, "link", pointer)
    values["notes"] = _text(plain, "notes", pointer, empty=True) if "notes" in plain else ""
    values["peak_flops"] = _rates(plain["peak_flops"], f"{pointer}/peak_flops")
    values["sources"] = _sources(plain.get("sources", {}), f"{pointer}/sources")
    return AcceleratorSpec(**values)


def _check_field_names(plain: object, pointer: str) -> None:
    if not isinstance(plain, Mapping):
        raise InvalidInputError(
            f"An accelerator is an object of fields; got {type(plain).__name__}.", pointer=pointer
        )
    for name in plain:
        if name not in _FIELDS:
            raise InvalidInputError(
                f"Unknown field {name!r} of an accelerator. Known: {', '.join(_FIELDS)}.",
                pointer=f"{pointer}/{name}",
                allowed=_FIELDS,
            )
    for name in (*_REQUIRED_TEXTS, *_REQUIRED_NUMBERS, "peak_flops"):
        if plain.get(name) is None:
            raise InvalidInputError(
                f"Accelerator {plain.get('name', '')!r} lacks the field {name!r}. Add it.",
                pointer=f"{pointer}/{name}",
            )


def _text(plain: Mapping[str, Any], name: str, pointer: str, *, empty: bool = False) -> str:
    value = plain[name]
    if not isinstance(value, str) or not (value or empty):
        raise InvalidInputError(
            f"{name} must be a text; got {value!r}.", pointer=f"{pointer}/{name}"
        )
    return value


def _positive(value: object, pointer: str) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # An integer beyond the floats would overflow instead of comparing as infinite.
    if not number or not 0 < cast(float, value) < 1e300 or not math.isfinite(cast(float, value)):
        raise InvalidInputError(
            f"{pointer.rpartition('/')[2]} must be a finite number > 0 in SI units; got {value!r}.",
            pointer=pointer,
        )
    return float(cast(float, value))


def _count(value: object, pointer: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise InvalidInputError(
            f"{pointer.rpartition('/')[2]} must be an integer > 0; got {value!r}.", pointer=pointer
        )
    return value


def _flag(value: object, pointer: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidInputError(
            f"{pointer.rpartition('/')[2]} must be true or false; got {value!r}.", pointer=pointer
        )
    return value


def _rates(value: object, pointer: str) -> Mapping[str, float]:
    if not isinstance(value, Mapping) or not value:
        raise InvalidInputError(
            f"peak_flops must state at least one of {', '.join(RATES)}; got {value!r}.",
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
    return MappingProxyType({k: _positive(v, f"{pointer}/{k}") for k, v in value.items()})


def _sources(value: object, pointer: str) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidInputError(
            f"sources must be an object of field to source; got {value!r}.", pointer=pointer
        )
    for key in value:
        if key != "*" and key not in _FIELDS:
            raise InvalidInputError(
                f"sources names the field {key!r}, which an accelerator does not have. "
                "Use a field name or '*'.",
                pointer=f"{pointer}/{key}",
            )
        _text(value, key, pointer)
    return MappingProxyType(dict(value))
