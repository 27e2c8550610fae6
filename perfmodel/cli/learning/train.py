"""``perfmodel train``: learn predictors from profiles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfmodel.cli.database import database_option, opened
from perfmodel.cli.models.publishing import open_registry, publish
from perfmodel.cli.options import (
    engine_options,
    members_option,
    models_store_option,
    output_options,
    profiles_option,
)
from perfmodel.cli.output import print_json, tell

if TYPE_CHECKING:
    from perfmodel.engines.task_engine import TaskEngine
    from perfmodel.predictors.predictor import Sample
    from perfmodel.training.samples.public_data import TrainingData
    from perfmodel.training.tuning.tune import Tuned


@click.command()
@profiles_option("to learn from")
@click.option("--name", default="default", show_default=True, help="Name of the trained model.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    envvar="PERFMODEL_DATA",
    help="Folder of public measurements; the predictor for all devices learns from them. "
    "[env: PERFMODEL_DATA]",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Processes that capture and fit.",
)
@engine_options
@click.option(
    "--tune",
    "trials",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Search the settings of each learner in N trials, kept in the database. [default: 0]",
)
@database_option
@members_option
@click.option("--device", help="Only records of this accelerator.")
@click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same model.")
@models_store_option
@output_options
def command(
    profiles: Path,
    name: str,
    data: Path | None,
    workers: int,
    engine: str,
    address: str | None,
    trials: int,
    database: str,
    members: tuple[str, ...],
    device: str | None,
    seed: int,
    models: str,
    as_json: bool,
) -> None:
    """Learn predictors from profiles and write them below the folder of models.

    Takes minutes; progress goes to standard error.
    """
    from perfmodel.predictors.members.ensemble import DEFAULT_MEMBERS
    from perfmodel.store.artifacts import check_model_name
    from perfmodel.store.profiles.profile_store import ProfileStore
    from perfmodel.training.kept_folds import kept_folds
    from perfmodel.training.samples.samples import load_samples
    from perfmodel.training.train import train
    from perfmodel.training.training_engine import opened_engine

    check_model_name(name)
    found = load_samples(ProfileStore(profiles), device=device)
    with opened_engine(engine, workers=workers, address=address) as tasks:
        public = _public(data, profiles, tasks) if data else None
        folds = kept_folds(open_registry(models), name, public.samples) if public else {}
        tuned = _tuned(database, trials, found.samples, public, tasks, members, seed)

        def write(out: Path) -> Path:
            return train(
                found.samples,
                out,
                name=name,
                members=members or DEFAULT_MEMBERS,
                seed=seed,
                progress=tell,
                corpus=public.samples if public else (),
                operators=public.operators if public else (),
                joint_settings={"known_folds": folds},
                engine=tasks,
                tuned=tuned,
            )

        made = publish(models, write, why="trained")
    if as_json:
        print_json(
            {
                "folder": made.place,
                "serves": made.serves,
                "samples": len(found.samples),
                "dropped": dict(found.dropped),
                "notes": dict(found.notes),
            }
        )
        return
    click.echo(f"Learned from {len(found.samples)} samples. {made.sentences}")
    for reason, number in found.dropped.items():
        click.echo(f"Left out: {number} ({reason}).")
    for note, number in found.notes.items():
        click.echo(f"Note: {number} ({note}).")


def _tuned(
    database: str,
    trials: int,
    samples: Sequence[Sample],
    public: TrainingData | None,
    engine: TaskEngine,
    members: tuple[str, ...],
    seed: int,
) -> Tuned | None:
    if not trials:
        return None
    with opened(database) as connections:
        from perfmodel.predictors.members.ensemble import DEFAULT_MEMBERS
        from perfmodel.store.retraining.tuning_journal import TuningJournalStore
        from perfmodel.training.tuning.tune import tune

        return tune(
            samples,
            TuningJournalStore(connections),
            trials=trials,
            seed=seed,
            members=members or DEFAULT_MEMBERS,
            corpus=public.samples if public else (),
            engine=engine,
            progress=tell,
        )


def _public(data: Path, profiles: Path, engine: TaskEngine) -> TrainingData:
    from perfmodel.training.samples.public_data import load_data

    found = load_data(data, profiles=profiles, engine=engine, progress=tell)
    for name, number in found.rejected.items():
        tell(f"{number} rows of {name} were not understood; perfmodel import {name} lists them.")
    for reason, number in found.dropped.items():
        tell(f"Left out: {number} published steps ({reason}).")
    return found
