"""``perfmodel models shadow``: a version that answers beside the one that serves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from perfmodel.cli.database import database_option, opened
from perfmodel.cli.models.publishing import open_registry, why_option
from perfmodel.cli.options import models_store_option, output_options
from perfmodel.cli.output import percent, print_facts, print_json, print_table
from perfmodel.store.artifacts import named_version

if TYPE_CHECKING:
    from perfmodel.client.shadowing import ShadowGroup, ShadowQuestion, ShadowReport


@click.command()
@click.argument("version")
@click.option("--start", is_flag=True, help="Let it answer beside the one that serves.")
@click.option(
    "--against", metavar="VERSION", help="Compare with this one, not with the last."
)  # fmt: skip
@why_option
@database_option
@models_store_option
@output_options
def shadow(
    version: str,
    start: bool,
    against: str | None,
    why: str,
    database: str,
    models: str,
    as_json: bool,
) -> None:
    """Show how VERSION differs from the one that serves, on what was asked last.

    A running service on the database answers those questions with every version that is a shadow;
    nobody is told. Promoting or refusing the version ends it.
    """
    registry = open_registry(models)
    name, number = named_version(version)
    registry.versions.manifest(name, number)  # no database is made for one that is not there
    from perfmodel.shadow.shadow_report import read_report
    from perfmodel.shadow.starting import begin_shadow

    with opened(database) as connections:
        if start:
            begin_shadow(registry, connections, name, number, why=why)
        found = read_report(connections, registry, name, number, against=against)
    if as_json:
        print_json(asdict(found))
    else:
        _print(found)


@click.command()
@click.argument("version")
@why_option
@models_store_option
@output_options
def refuse(version: str, why: str, models: str, as_json: bool) -> None:
    """Decide that VERSION shall not serve; promoting it takes --force from then on."""
    from perfmodel.registry.states import State

    name, number = named_version(version)
    change = open_registry(models).judge(name, number, State.REFUSED, why=why)
    if as_json:
        print_json({"model": f"{name}/{number}", **asdict(change)})
    else:
        print(f"{name}/{number} is refused.")


def _print(found: ShadowReport) -> None:
    print_facts(
        [
            ("shadow", found.model),
            ("against", found.against or "-"),
            ("comparison", found.stage),
            ("not compared yet", str(found.waiting)),
            ("last compared", found.compared_at or "-"),
            *([("problem", found.problem)] if found.problem else []),
        ]
    )
    if not found.groups:
        print("Nothing was compared yet.")
        return
    _print_groups(found.groups)
    _print_questions("the most different", found.most_different[:5])
    _print_questions("the shadow fails on", found.failed[:5])


def _print_groups(groups: Sequence[ShadowGroup]) -> None:
    print("\nstep time by the shadow against the version that serves; error where it was measured")
    columns = [
        "by", "group", "questions", "10 %", "median", "90 %", "failed", "measured", "error before",
        "error",
    ]  # fmt: skip
    rows = [
        [
            one.dimension,
            one.name,
            str(one.asked),
            *(_share(value) for value in (one.low, one.median, one.high)),
            str(one.shadow_failed),
            str(one.observed),
            *(_error(value) for value in (one.serving_error, one.shadow_error)),
        ]
        for one in groups
    ]
    print_table(columns, rows)


def _print_questions(title: str, questions: Sequence[ShadowQuestion]) -> None:
    if not questions:
        return
    print(f"\n{title}")
    rows = [[one.label, one.placement, _share(one.ratio), one.problem or "-"] for one in questions]
    print_table(["job", "placement", "difference", "problem"], rows)


def _error(logarithm: float | None) -> str:
    return "-" if logarithm is None else percent(math.expm1(logarithm))


def _share(logarithm: float | None) -> str:
    """Write ln of a ratio as a difference in percent."""
    return "-" if logarithm is None else f"{100 * math.expm1(logarithm):+.1f} %"
