"""``perfmodel models``: the versions of trained models, and which of them serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.failures import EXIT_FAILED
from perfmodel.cli.models.publishing import open_registry, why_option
from perfmodel.cli.models.shadow import refuse, shadow
from perfmodel.cli.options import FiniteRange, models_store_option, output_options, store_options
from perfmodel.cli.output import percent, print_facts, print_json, print_table
from perfmodel.store.artifacts import named_version

if TYPE_CHECKING:
    from perfmodel.registry.model_registry import ModelRegistry
    from perfmodel.registry.states import Change

_name_option = click.option(
    "--name", default="default", show_default=True, help="Name of the trained model."
)


@click.group(invoke_without_command=True)
@models_store_option
@output_options
@click.pass_context
def command(ctx: click.Context, models: str, as_json: bool) -> None:
    """List the versions of trained models, and say which of them serves.

    A version is named as NAME/VERSION, or by its version where the name is "default".
    """
    if ctx.invoked_subcommand is None:
        _list(models, as_json=as_json)


command.add_command(shadow)
command.add_command(refuse)


@command.command("list")
@models_store_option
@output_options
def list_(models: str, as_json: bool) -> None:
    """List the versions, verify their files, and say which one answers.

    Exits with 4 if a file is damaged.
    """
    _list(models, as_json=as_json)


@command.command()
@click.argument("version")
@models_store_option
@output_options
def show(version: str, models: str, as_json: bool) -> None:
    """Show what VERSION learned from, how good it is, and what became of it."""
    registry = open_registry(models)
    name, number = named_version(version)
    manifest = registry.versions.manifest(name, number)
    history = registry.history(name)
    state = history.state_of(number, registry.versions.versions(name))
    changes = [one for one in history.changes if one.version == number]
    if as_json:
        shown = {key: value for key, value in manifest.items() if key != "files"}
        print_json(
            {
                "model": f"{name}/{number}",
                "state": state,
                "changes": [asdict(one) for one in changes],
                "manifest": shown,
            }
        )
        return
    print_facts(
        [
            ("model", f"{name}/{number}"),
            ("state", state.value),
            ("trained", str(manifest.get("created_at", "-"))),
            ("devices", ", ".join(manifest.get("devices", ())) or "-"),
            ("seed", str(manifest.get("seed", "-"))),
            ("held-out error", _held_out_error(manifest)),
        ]
    )
    if changes:
        _print_changes(changes)


@command.command()
@click.argument("before")
@click.argument("after", required=False)
@models_store_option
@output_options
def diff(before: str, after: str | None, models: str, as_json: bool) -> None:
    """Show how AFTER differs from BEFORE: scores, data, settings, files.

    Without AFTER, how BEFORE differs from the version that serves.
    """
    from perfmodel.registry.differences import differences

    registry = open_registry(models)
    name, _ = named_version(before)
    first, second = (before, after) if after else (registry.serving_reference(name), before)
    found = differences(
        *(registry.versions.manifest(*named_version(one)) for one in (first, second))
    )
    if as_json:
        print_json({"before": first, "after": second, **asdict(found)})
        return
    rows = [
        [one.fact, _short(one.before), _short(one.after)] for one in (*found.scores, *found.facts)
    ]
    print_table(["fact", first, second], rows)
    print(f"{len(found.files)} files differ.")


@command.command()
@click.argument("version")
@click.option("--force", is_flag=True, help="Even if it was refused.")
@why_option
@models_store_option
@output_options
def promote(version: str, force: bool, why: str, models: str, as_json: bool) -> None:
    """Let VERSION serve, on every host that uses these models.

    Its files are compared with their hashes, and it is loaded, before.
    """
    registry = open_registry(models)
    name, number = named_version(version)
    change = registry.promote(
        name, number, why=why, force=force, check=lambda: _check(registry, name, number)
    )
    _tell(name, change, as_json=as_json)


@command.command()
@_name_option
@why_option
@models_store_option
@output_options
def rollback(name: str, why: str, models: str, as_json: bool) -> None:
    """Let the version serve that did before."""
    registry = open_registry(models)
    change = registry.rollback(name, why=why, check=lambda number: _check(registry, name, number))
    _tell(name, change, as_json=as_json)


@command.command()
@_name_option
@click.option(
    "--keep", type=click.IntRange(0), default=5, show_default=True,
    help="Retired versions that stay.",
)  # fmt: skip
@click.option(
    "--pinned-days", type=FiniteRange(0), default=7.0, show_default=True,
    help="A version that a question was pinned to within so many days stays.",
)  # fmt: skip
@why_option
@models_store_option
@output_options
def collect(name: str, keep: int, pinned_days: float, why: str, models: str, as_json: bool) -> None:
    """Delete retired versions but for the newest.

    Never one that serves, that a rollback goes back to, or that is newer than what serves.
    """
    removed = open_registry(models).collect(name, keep=keep, pinned_for_days=pinned_days, why=why)
    if as_json:
        print_json({"name": name, "removed": removed})
    else:
        print(f"Deleted: {', '.join(removed) or 'nothing'}.")


def _check(registry: ModelRegistry, name: str, version: str) -> None:
    """Load a version as the service would."""
    import tempfile

    from perfmodel.estimator.kernels.loading import check_kernels
    from perfmodel.estimator.single.loading import load_version
    from perfmodel.store.artifacts import KERNELS

    check = check_kernels if name == KERNELS else load_version
    with tempfile.TemporaryDirectory() as folder:
        registry.versions.fetch(name, version, Path(folder))
        check(Path(folder), f"{name}/{version}")


def _tell(name: str, change: Change, *, as_json: bool) -> None:
    if as_json:
        said = {"model": f"{name}/{change.version}", "changed": not change.is_standing}
        print_json({**said, **asdict(change)})
        return
    if change.is_standing:
        print(f"{name}/{change.version} serves already; nothing is changed.")
        return
    before = f" in the place of {name}/{change.previous}" if change.previous else ""
    print(f"{name}/{change.version} serves{before}.")


def _list(models: str, *, as_json: bool) -> None:
    from perfmodel.estimator.single.loading import load_model
    from perfmodel.registry.mirror import local_models

    found = load_model(local_models(models, store_options()))
    if as_json:
        listed = [dict(facts) for facts in found.models]
        print_json({"folder": models, "models": listed, "problems": list(found.problems)})
    else:
        _print(found.models, models)
        for text in found.problems:
            click.echo(f"Problem: {text}", err=True)
    if found.problems:
        click.get_current_context().exit(EXIT_FAILED)


def _print(models: tuple[Mapping[str, Any], ...], place: str) -> None:
    if not models:
        print(
            f"No trained model is in {place}; answers are analytical. `perfmodel train` makes one."
        )
        return
    rows = [
        [
            facts["model"],
            facts["state"],
            "damaged" if facts["damaged"] else "answers" if facts["serving"] else "sound",
            str(facts.get("created_at", "-")),
            ", ".join(facts.get("devices", ())) or "-",
            _held_out_error(facts),
        ]
        for facts in models
    ]
    print_table(["model", "state", "files", "trained", "devices", "held-out error"], rows)


def _print_changes(changes: Sequence[Change]) -> None:
    rows = [[one.at, one.action, one.state.value, one.by or "-", one.why or "-"] for one in changes]
    print_table(["when", "what", "state", "who", "why"], rows)


def _short(value: Any) -> str:
    text = "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _held_out_error(facts: Mapping[str, Any]) -> str:
    """Return the error of the ensemble on families that it had not seen, as training noted it."""
    scores = facts.get("scores", {})
    ensemble = scores.get("predictors", {}).get("ensemble", {})
    return f"{percent(ensemble['mape'])} ({scores['split']})" if "mape" in ensemble else "-"
