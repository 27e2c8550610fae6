"""What was asked, and what versions that nobody is told of would have answered.

One process of all at a time lets shadows answer; a child of it compares, and what that tells is
read here.
"""

from __future__ import annotations

import logging
import os
import selectors
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, final

import orjson

from perfmodel.child_modules import module_command, module_environment
from perfmodel.client.shadowing import ShadowReport
from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.registry.file_store import LocalFiles
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.registry.states import Change
from perfmodel.registry.states import State as VersionState
from perfmodel.shadow.shadow_report import read_report
from perfmodel.shadow.starting import begin_shadow
from perfmodel.store.shadow.asked_questions import AskedQuestionStore
from perfmodel.store.shadow.comparisons import Comparison, ComparisonStore
from perfmodel.store.shadow.shadow_runs import ShadowRun, ShadowRunStore
from perfmodel.store.sql.connections import is_in_memory
from perfmodel.store.sql.leases import new_owner
from perfmodel.store.sql.polling import PollingThread
from service.settings import Settings
from service.shadow.asked_questions import AskedQuestions
from service.state.state import State
from service.versions.loaded_versions import LoadedVersions
from service.versions.model_source import ModelSource

#: How often it is looked whether somebody wants the child to end, seconds.
_POLL_S = 0.5
#: A child that tells nothing for so long is given up, seconds.
_SILENT_S = 900.0
#: Each library would take as many threads as there are processors.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class ChildFailedError(Exception):
    """A comparison did not end well; says why."""


@contextmanager
def comparing_child(header: Mapping[str, Any]) -> Iterator[ComparingChild]:
    """Start a child; it is gone when the block ends."""
    process = subprocess.Popen(
        module_command("service.shadow.child"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=module_environment(dict.fromkeys(_ONE_THREAD, "1")),
    )
    child = ComparingChild(process)
    try:
        assert process.stdin is not None
        # Not among its arguments, which everybody on the machine can read: it may hold a password.
        process.stdin.write(orjson.dumps({**header, "parent": os.getpid()}) + b"\n")
        process.stdin.close()
        yield child
    finally:
        process.kill()
        process.wait()
        child.close()


class ComparingChild:
    """A child that compares."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._process = process
        self._output = process.stdout
        self._read = b""
        # Not select(): a service may have more files open than that can name.
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._output, selectors.EVENT_READ)

    def close(self) -> None:
        """Read no more."""
        self._ready.close()
        self._output.close()

    def lines(self) -> Iterator[dict[str, Any] | None]:
        """Yield what the child tells, and None now and then while it tells nothing.

        Ends after the line that says that all is done.

        Raises
        ------
        ChildFailedError
            It ended otherwise, or tells nothing any more.
        """
        heard_s = time.monotonic()
        while True:
            line = self._line()
            if line is None:
                if time.monotonic() - heard_s > _SILENT_S:
                    raise ChildFailedError(f"Nothing was compared within {_SILENT_S:g} s.")
                yield None
                continue
            heard_s = time.monotonic()
            told: dict[str, Any] = orjson.loads(line)
            if "problem" in told:
                raise ChildFailedError(told["problem"])
            if "done" in told:
                return
            yield told

    def _line(self) -> bytes | None:
        """Return the next line, or None where there is none yet."""
        while b"\n" not in self._read:
            if not self._ready.select(_POLL_S):
                return None
            came = os.read(self._output.fileno(), 1 << 16)
            if not came:
                status = self._process.wait()
                raise ChildFailedError(
                    f"The process that compares ended with status {status}; its log says why."
                )
            self._read += came
        line, _, self._read = self._read.partition(b"\n")
        return line


logger = logging.getLogger(__name__)

#: A comparison whose process is not heard of for so long is taken over, seconds.
_LEASE_S = 60.0
#: How long nobody tries again after one that ended badly, seconds.
_PAUSE_S = 30.0


@final
class ShadowWatch(PollingThread):
    """Looks for versions that are shadows and for questions that they have not answered yet.

    Everything is done in a thread of its own, which waits most of the time, and by a child process
    that steps back behind everything else on the machine. No answer waits for either.

    Parameters
    ----------
    settings : Settings
        How often it is looked, and what a child may take.
    """

    def __init__(
        self, source: ModelSource, versions: LoadedVersions, state: State, settings: Settings
    ) -> None:
        super().__init__(
            "shadow", every_s=settings.shadow_poll_s, complaint="shadows cannot be compared"
        )
        self._source = source
        self._versions = versions
        self._settings = settings
        self._database = state.database.url
        connections = state.database.connections
        self._runs = ShadowRunStore(connections)
        self._comparisons = ComparisonStore(connections)
        # What is here of a store elsewhere: every change of state is, and nobody waits for it.
        self._registry = ModelRegistry(LocalFiles(source.folder))
        self._owner = new_owner()

    def start(self) -> None:
        """Begin to look, where another process can compare and it is looked at all."""
        if self._every_s and self.can_compare:
            super().start()

    def poll(self) -> None:
        """Compare what waits, of every version that is a shadow.

        Raises
        ------
        StoreError
            The database cannot be used.
        """
        for model in self.shadows():
            if self._runs.find(model) is None:
                self._runs.enter(model)
            waiting = self._comparisons.waiting(model, self._versions.serving.version)
            if self._ended.is_set() or not waiting:
                continue
            held = self._runs.take(model, self._owner, lease_s=_LEASE_S)
            if held is not None:
                self._compare(held)

    def shadows(self) -> list[str]:
        """Return the versions that are shadows now."""
        return [
            f"{name}/{version}"
            for name in self._registry.versions.names()
            for version, state in self._registry.history(name).states.items()
            if state is VersionState.SHADOW
        ]

    @property
    def can_compare(self) -> bool:
        """Whether another process can read the database; one in memory is that of one process."""
        return not is_in_memory(self._database)

    def _compare(self, held: ShadowRun) -> None:
        problem: str | None = None
        try:
            self._source.fetch(held.name)
            if not self._let_compare(held):
                return  # somebody else has it
        except (PerfModelError, ChildFailedError, OSError) as error:
            problem = error.message if isinstance(error, PerfModelError) else str(error)
            logger.warning("%s is not compared: %s", held.name, problem)
        self._runs.end(held, problem, wait_s=_PAUSE_S if problem else 0.0)

    def _let_compare(self, held: ShadowRun) -> bool:
        """Let a child compare; returns whether this process still has the lease."""
        renewed_s = time.monotonic()
        with comparing_child(self._header(held.name)) as child:
            for told in child.lines():
                if told is not None:
                    found = [Comparison(**one) for one in told["comparisons"]]
                    self._comparisons.add(held.name, told["against"], found)
                if time.monotonic() - renewed_s > _LEASE_S / 6:
                    renewed_s = time.monotonic()
                    if not self._runs.renew(self._owner, [held.name], lease_s=_LEASE_S):
                        return False
                    if held.name not in self.shadows():
                        return True
                if self._ended.is_set():
                    return True
        return True

    def _header(self, model: str) -> dict[str, Any]:
        return {
            "model": model,
            "folder": str(self._source.folder.absolute()),
            "database": self._database,
            "most": self._settings.shadow_questions,
            "memory_bytes": self._settings.shadow_memory_bytes,
            "capture_timeout_s": self._settings.capture_timeout_s,
        }


class Shadow:
    """Keeps what was asked last and compares versions on it; does nothing until it is started."""

    def __init__(
        self, source: ModelSource, versions: LoadedVersions, state: State, settings: Settings
    ) -> None:
        self._connections = state.database.connections
        store = AskedQuestionStore(
            self._connections,
            most=settings.shadow_questions,
            most_bytes=settings.shadow_questions_bytes,
        )
        #: Takes questions that were answered.
        self.asked = AskedQuestions(store, is_kept=settings.shadow_questions > 0)
        self.watch = ShadowWatch(source, versions, state, settings)

    def start(self) -> None:
        """Begin to keep what is asked, and to look for versions that are shadows."""
        self.asked.start()
        self.watch.start()

    def close(self) -> None:
        """End both."""
        self.asked.close()
        self.watch.close()

    def begin(self, registry: ModelRegistry, name: str, version: str, why: str) -> Change:
        """Let a version be a shadow, as :func:`~perfmodel.shadow.starting.begin_shadow`.

        Raises
        ------
        InvalidInputError
            The database is in the memory of this process, where none that compares can read it.
        """
        if not self.watch.can_compare:
            raise InvalidInputError(
                "No version can answer beside the one that serves: the database is in memory, and "
                "the process that would compare them cannot read it. Let PERFMODEL_DATABASE name a "
                "file or a server."
            )
        return begin_shadow(registry, self._connections, name, version, why=why)

    def report(
        self, registry: ModelRegistry, name: str, version: str, against: str | None
    ) -> ShadowReport:
        """Return what is known of a version that answers, or did, beside another.

        Raises
        ------
        UnknownNameError
            There is no such version.
        """
        return read_report(self._connections, registry, name, version, against=against)
