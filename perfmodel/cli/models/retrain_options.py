"""Where retrainings are done, as commands are told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from perfmodel.cli.database import database_option, url_of
from perfmodel.cli.options import (
    FOLDER,
    FiniteRange,
    engine_options,
    models_store_option,
    store_options,
    with_options,
)
from perfmodel.errors import InvalidInputError

if TYPE_CHECKING:
    from perfmodel.retraining.worker import WorkerOptions
    from perfmodel.retraining.workplace import Workplace

_GB = 1e9
#: Where retrainings are done: data, models, database, folder, processes, memory.
workplace_options = with_options(
    models_store_option, database_option, engine_options,
    click.option(
        "--profiles",
        type=FOLDER,
        multiple=True,
        envvar="PERFMODEL_RETRAINING_PROFILES",
        help="Folder of records of profiles, campaigns or probes. Repeatable. [default: profiles; "
        "environment: PERFMODEL_RETRAINING_PROFILES]",
    ),
    click.option(
        "--data",
        type=click.Path(path_type=Path),
        envvar="PERFMODEL_DATA",
        help="Folder of public measurements to learn from. [environment: PERFMODEL_DATA]",
    ),
    click.option(
        "--runs",
        type=FOLDER,
        envvar="PERFMODEL_RETRAININGS",
        help="Folder of what is under way. [default: retrainings beside an SQLite database, else "
        "in the cache; environment: PERFMODEL_RETRAININGS]",
    ),
    click.option(
        "--processes", type=click.IntRange(1), default=2, show_default=True,
        help="Processes that capture and fit.",
    ),
    click.option(
        "--memory", "memory_gb", type=FiniteRange(min=0.1), metavar="GB",
        help="Memory of all its processes past which a retraining is ended. [default: 8.6]",
    ),
)  # fmt: skip


class Where(TypedDict):
    """What :func:`workplace_options` reads."""

    database: str
    models: str
    profiles: tuple[Path, ...]
    data: Path | None
    runs: Path | None
    processes: int
    engine: str
    address: str | None


def workplace(where: Where) -> Workplace:
    """Return where retrainings are done, from the options of :func:`workplace_options`.

    Raises
    ------
    InvalidInputError
        A folder that is stated is not there.
    """
    from perfmodel.retraining.data.sources import DataSources
    from perfmodel.retraining.workplace import Workplace, usual_folder

    # Here, since what only looks at retrainings needs none.
    if where["data"] is not None and not where["data"].is_dir():
        raise InvalidInputError(
            f"--data or PERFMODEL_DATA is {str(where['data'])!r}, which is no folder. Name the one "
            "of the public measurements, or none to learn from profiles alone."
        )
    for folder in where["profiles"]:
        if not folder.is_dir():
            raise InvalidInputError(
                f"--profiles or PERFMODEL_RETRAINING_PROFILES is {str(folder)!r}, which is no "
                "folder. Name those of the records, or none for `profiles`."
            )
    url, models = url_of(where["database"]), where["models"]
    profiles = where["profiles"] or (Path("profiles"),)
    return Workplace(
        database=url,
        models=models if "://" in models else str(Path(models).absolute()),
        models_options=store_options(),
        folder=where["runs"] or usual_folder(url),
        sources=DataSources(profiles=profiles, data=where["data"]),
        workers=where["processes"],
        engine=where["engine"],
        address=where["address"],
    )


def worker_options(memory_gb: float | None, lease_s: float = 60.0) -> WorkerOptions:
    """Return how a worker works."""
    from perfmodel.retraining.worker import MEMORY_BYTES, WorkerOptions

    memory_bytes = MEMORY_BYTES if memory_gb is None else memory_gb * _GB
    return WorkerOptions(memory_bytes=memory_bytes, lease_s=lease_s)
