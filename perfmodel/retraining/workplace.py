"""Where retrainings are done: their data, the store of models, the folder of runs; as JSON too."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perfmodel.devices.local_cpu import cache_folder
from perfmodel.engines.task_engine import TaskEngine
from perfmodel.retraining.data.sources import DataSources

_SQLITE_FILE = "sqlite:///"


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """Where retrainings are done.

    Parameters
    ----------
    database : str
        URL of the database that holds them.
    models : str
        Folder or URL of the store of models.
    models_options : mapping
        What the file system of such a URL takes besides.
    folder : Path
        Of the runs; each has a folder of its own in it. Outside of the folder of models.
    workers : int
        Processes that capture and fit.
    engine, address : str, str or None
        What runs captures and fits, as
        :func:`~perfmodel.training.training_engine.opened_engine` takes them.
    cache : Path or None
        Folder of kept sketches; None: that of the user.
    """

    database: str
    models: str
    models_options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    folder: Path
    sources: DataSources
    workers: int = 2
    engine: str = "local"
    address: str | None = None
    cache: Path | None = None

    def opened_engine(self) -> AbstractContextManager[TaskEngine]:
        """Open what runs captures and fits."""
        # Deferred: it brings all of training, which whoever enters a retraining does not need.
        from perfmodel.training.training_engine import opened_engine

        return opened_engine(self.engine, workers=self.workers, address=self.address)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON types; :func:`workplace_from` reads it."""
        return {
            "database": self.database,
            "models": self.models,
            "models_options": dict(self.models_options),
            "folder": str(self.folder.absolute()),
            "profiles": [str(folder.absolute()) for folder in self.sources.profiles],
            "data": None if self.sources.data is None else str(self.sources.data.absolute()),
            "workers": self.workers,
            "engine": self.engine,
            "address": self.address,
            "cache": None if self.cache is None else str(self.cache),
        }


def workplace_from(plain: Mapping[str, Any]) -> Workplace:
    """Read what :meth:`Workplace.to_dict` wrote."""
    profiles, data, cache = plain["profiles"], plain["data"], plain["cache"]
    return Workplace(
        database=plain["database"],
        models=plain["models"],
        models_options=plain["models_options"],
        folder=Path(plain["folder"]),
        sources=DataSources(
            profiles=tuple(map(Path, profiles)), data=None if data is None else Path(data)
        ),
        workers=plain["workers"],
        engine=plain["engine"],
        address=plain["address"],
        cache=None if cache is None else Path(cache),
    )


def usual_folder(database: str) -> Path:
    """Return where runs lie unless a folder is named: beside an SQLite file, else in the cache.

    Examples
    --------
    >>> usual_folder("sqlite:////srv/perfmodel/perfmodel.db").as_posix()
    '/srv/perfmodel/retrainings'
    """
    path = database.removeprefix(_SQLITE_FILE)
    beside = Path(path).parent if database.startswith(_SQLITE_FILE) and path else cache_folder()
    return beside / "retrainings"
