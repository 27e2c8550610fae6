"""``perfmodel devices``: the catalogue of accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perfmodel.cli.options import output_options
from perfmodel.cli.output import memory, print_json, print_table, with_unit
from perfmodel.errors import InvalidInputError

if TYPE_CHECKING:
    from perfmodel.devices.spec import AcceleratorSpec


@click.command()
@click.argument("words", nargs=-1)
@click.option("--kind", type=click.Choice(["gpu", "cpu", "tpu", "npu"]), help="Only this kind.")
@click.option("--vendor", help="Only this vendor, for example NVIDIA.")
@click.option("--sources", is_flag=True, help="Say where each number comes from.")
@output_options
def command(
    words: tuple[str, ...], kind: str | None, vendor: str | None, sources: bool, as_json: bool
) -> None:
    """List the accelerators that perfmodel knows, with their peaks.

    WORDS filter by name, alias or architecture: `perfmodel devices a100`, `perfmodel devices
    hopper`.
    """
    from perfmodel.devices.catalog import Catalog

    catalog = Catalog.default()
    aliases: dict[str, list[str]] = {name: [] for name in catalog.names()}
    for alias, name in catalog.aliases().items():
        aliases[name].append(alias)
    found = [
        spec
        for spec in catalog
        if (kind is None or spec.kind == kind)
        and (vendor is None or spec.vendor.casefold() == vendor.casefold())
        and _matches(spec, aliases[spec.name], words)
    ]
    if not found:
        _refuse(words, kind, vendor)
    if as_json:
        _print_json(found, aliases)
    else:
        _print_table(found, sources=sources)


def _matches(spec: AcceleratorSpec, aliases: list[str], words: tuple[str, ...]) -> bool:
    text = " ".join((spec.name, spec.architecture, spec.vendor, *aliases)).casefold()
    return all(word.casefold() in text for word in words)


def _refuse(words: tuple[str, ...], kind: str | None, vendor: str | None) -> None:
    """Refuse a filter that nothing passes; a single misspelt name is answered with the nearest."""
    from perfmodel.devices.catalog import Catalog

    if len(words) == 1 and kind is None and vendor is None:
        Catalog.default().get(words[0])
    wanted = " ".join(word for word in (*words, kind, vendor) if word)
    raise InvalidInputError(
        f"No accelerator matches {wanted!r}. `perfmodel devices` without a filter lists all."
    )


def _print_json(found: list[AcceleratorSpec], aliases: dict[str, list[str]]) -> None:
    from perfmodel.devices.codec import spec_to_dict

    print_json([{**spec_to_dict(spec), "aliases": sorted(aliases[spec.name])} for spec in found])


def _print_table(found: list[AcceleratorSpec], *, sources: bool) -> None:
    columns = ["name", "kind", "architecture", "year", "fp32", "tf32", "fp16/bf16", "fp8"]
    columns += ["memory", "bandwidth", "link", "power"]
    rows = []
    for spec in found:
        peak = spec.peak_flops
        half = peak.get("bf16", peak.get("fp16"))
        rates = (peak.get("fp32"), peak.get("tf32"), half, peak.get("fp8"))
        row = [spec.name, spec.kind, spec.architecture, str(spec.year or "-")]
        row += [with_unit(rate, "FLOP/s") for rate in rates]
        row += [memory(spec.memory_bytes), with_unit(spec.bandwidth_bytes_per_s, "B/s")]
        row += [spec.link or "-", with_unit(spec.tdp_w, "W")]
        if sources:
            row.append("; ".join(sorted(set(spec.sources.values()))))
        rows.append(row)
    print_table([*columns, *(["sources"] if sources else [])], rows, right="lllrrrrrrrlr")
    print(f"{len(found)} accelerators. Peaks are dense; fp16 with fp32 accumulation.")
