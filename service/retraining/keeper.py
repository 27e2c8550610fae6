"""Enters retrainings that are due by themselves; starts a process that does those that wait.

None is ever done in a process that answers. Settings say when one is due.
"""

from __future__ import annotations

import logging
import subprocess
from pathlib import Path
from typing import final

from perfmodel.child_modules import module_command, module_environment
from perfmodel.errors import InvalidInputError
from perfmodel.retraining.settings import parse_settings
from perfmodel.retraining.triggers import TriggerRules, look
from perfmodel.store.artifacts import check_model_name
from perfmodel.store.retraining import RetrainingStore, TriggerStore
from perfmodel.store.sql.connections import is_in_memory
from perfmodel.store.sql.polling import PollingThread
from service.metrics.registry import Metrics
from service.settings import Settings


def rules_of(settings: Settings) -> TriggerRules:
    """Return what starts a retraining.

    Raises
    ------
    InvalidInputError
        An expression that names no time, or settings that no retraining can have.
    MissingExtraError
        An expression, and nothing that reads it.
    """
    try:
        asked = parse_settings(settings.retrain_settings, pointer="/retrain_settings").to_dict()
    except InvalidInputError as error:
        raise InvalidInputError(f"PERFMODEL_RETRAIN_SETTINGS: {error.message}") from error
    try:
        check_model_name(settings.retrain_model)
    except InvalidInputError as error:
        raise InvalidInputError(f"PERFMODEL_RETRAIN_MODEL: {error.message}") from error
    return TriggerRules(
        model=settings.retrain_model,
        cron=settings.retrain_cron,
        after_observations=settings.retrain_after_observations,
        after_records=settings.retrain_after_records,
        on_drift=settings.retrain_on_drift,
        least_s=settings.retrain_least_s,
        settings=asked,
    )


logger = logging.getLogger(__name__)

#: How often it is looked whether one waits, seconds.
POLL_S = 2.0
#: Time that the process has to give back what it does before it is killed, seconds.
_PATIENCE_S = 10.0


@final
class RetrainingKeeper(PollingThread):
    """Looks for retrainings that wait; does nothing until it is started.

    Every process of the service has one. Whichever starts a process first, the lease on the
    retraining lets one of them do it, and the others end.

    Parameters
    ----------
    database : str
        URL of the database; nothing is done for one in memory, which no other process can see.
    """

    def __init__(
        self,
        store: RetrainingStore,
        triggers: TriggerStore,
        database: str,
        settings: Settings,
        metrics: Metrics,
    ) -> None:
        super().__init__(
            "retraining", every_s=POLL_S, complaint="retrainings that wait cannot be seen"
        )
        self._rules = rules_of(settings)
        self._store = store
        self._triggers = triggers
        self._database = database
        self._settings = settings
        self._metrics = metrics
        self._process: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        """Look no more; what is being done goes back, and is gone on with later."""
        super().close()
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def poll(self) -> None:
        """Enter what is due by itself; start a process if one waits and none here is at work.

        Raises
        ------
        StoreError
            The database cannot be read.
        """
        if not is_in_memory(self._database):
            self._start_what_is_due()
        self._metrics.retrainings(self._store.states())
        at_work = self._process is not None and self._process.poll() is None
        if self._may_do() and not at_work and self._store.has_due():
            logger.info("a retraining waits; a process is started for it")
            command = command_of(self._database, self._settings)
            self._process = subprocess.Popen(
                module_command("perfmodel.cli", *command),
                env=module_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def _start_what_is_due(self) -> None:
        name = look(self._triggers, self._rules)
        if name is not None:
            found = self._store.find(name)
            why = found.why if found else ""
            logger.info("retraining %s of %s begins by itself: %s", name, self._rules.model, why)

    def _may_do(self) -> bool:
        there = all(folder.is_dir() for _, folder in stated_sources(self._settings))
        return self._settings.retrain_here and there and not is_in_memory(self._database)


def command_of(database: str, settings: Settings) -> list[str]:
    """Return the command that does what waits; what else it needs is in the environment."""
    command = [
        "retrain", "work", "--until-idle", "--quiet",
        "--database", database,
        "--models", str(settings.models),
        "--memory", str(settings.retraining_memory_bytes / 1e9),
        "--processes", str(settings.retraining_processes),
        "--engine", settings.retraining_engine,
    ]  # fmt: skip
    options = {"PERFMODEL_RETRAINING_PROFILES": "--profiles", "PERFMODEL_DATA": "--data"}
    for variable, folder in stated_sources(settings):
        command += [options[variable], str(folder)]
    if settings.retrainings is not None:
        command += ["--runs", str(settings.retrainings)]
    if settings.retraining_address:
        command += ["--address", settings.retraining_address]
    return command


def stated_sources(settings: Settings) -> list[tuple[str, Path]]:
    """Return the folders that are said to be learned from, each with the variable that says so."""
    found = []
    if "retraining_profiles" in settings.model_fields_set:
        folders = settings.retraining_profiles.split(":")
        found += [("PERFMODEL_RETRAINING_PROFILES", Path(one)) for one in folders if one]
    if settings.data is not None:
        found.append(("PERFMODEL_DATA", settings.data))
    return found
