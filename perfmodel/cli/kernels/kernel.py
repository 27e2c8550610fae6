"""``perfmodel kernel``: the time of a single kernel or collective by its shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from perfmodel.cli.asking.answering import answered
from perfmodel.cli.failures import EXIT_INPUT, EXIT_SOME_FAILED
from perfmodel.cli.options import answering_options, models_option, output_options
from perfmodel.cli.output import duration, percent, print_json, print_table, tell, with_unit
from perfmodel.errors import InvalidInputError

_COLUMNS = (
    "accelerator", "time", "interval", "on the device", "roofline", "of it", "bound", "reaches",
    "moves", "basis",
)  # fmt: skip


@click.command()
@click.argument("op")
@click.argument("shape", nargs=-1, metavar="EXTENT=NUMBER...")
@click.option(
    "--on", "accelerators", multiple=True, required=True, help="Accelerator; may be repeated."
)
@click.option("--precision", help="Such as fp32, tf32, bf16, fp8. Not of a collective.")
@click.option("--implementation", help="Whose kernel. Default: the mean over the usual ones.")
@click.option("--link", help="Of a collective, inside a host.")
@click.option("--network", help="Of a collective, between hosts.")
@models_option
@answering_options
@output_options
def command(
    op: str,
    shape: tuple[str, ...],
    accelerators: tuple[str, ...],
    precision: str | None,
    implementation: str | None,
    link: str | None,
    network: str | None,
    as_json: bool,
    **settings: Any,
) -> int:
    """Predict the time of a kernel or a collective by its shape.

    Extents are written as name=number:

        perfmodel kernel gemm m=8192 n=8192 k=8192 --precision bf16 --on H100 --on A100
        perfmodel kernel all_reduce size_bytes=1e9 ranks=8 --on H100

    docs/kernels.md lists operators and their extents.
    """
    stated = {
        "precision": precision,
        "implementation": implementation,
        "link": link,
        "network": network,
    }
    kernel: dict[str, Any] = {"op": op, "shape": dict(map(_extent, shape))}
    kernel |= {name: value for name, value in stated.items() if value is not None}
    question = {"kernels": [kernel], "accelerators": list(accelerators)}
    found = answered(settings, lambda who: who.kernels(question))
    if as_json:
        print_json(found)
    else:
        _print(found)
    if not found["answers"]:
        return EXIT_INPUT
    return EXIT_SOME_FAILED if found["errors"] else 0


def _extent(text: str) -> tuple[str, float]:
    name, equals, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        value = float("nan")
    if not equals or value != value:
        raise InvalidInputError(
            f"An extent is written as name=number, such as m=4096; got {text!r}.", pointer="/shape"
        )
    return name, int(value) if value.is_integer() else value


def _print(found: Mapping[str, Any]) -> None:
    if found["answers"]:
        print_table(list(_COLUMNS), [_row(one) for one in found["answers"]], right="lrrrrrlrrl")
    for text in found["warnings"]:
        click.echo(f"warning: {text}")
    for error in found["errors"]:
        tell(f"Error: {error['detail']}")


def _row(one: Mapping[str, Any]) -> list[str]:
    return [
        one["accelerator"],
        duration(one["time_s"]),
        f"{duration(one['low_s'])} to {duration(one['high_s'])}",
        duration(one.get("device_time_s")),
        duration(one["roofline_s"]),
        percent(one["roofline_s"] / one["time_s"]),
        one["bound"],
        with_unit(one["achieved_flops_per_s"], "FLOP/s"),
        with_unit(one["achieved_bytes_per_s"], "B/s"),
        str(one["basis"]),
    ]
