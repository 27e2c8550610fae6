"""The store of measurements: a durable journal, compacted into immutable Parquet files."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from perfmodel.errors import StoreError, UnknownGraphError
from perfmodel.graph.canonical import from_json, to_json
from perfmodel.graph.ir import Graph
from perfmodel.profilers.wire import key_of
from perfmodel.records import Measurement, OperatorRecord, StepRecord
from perfmodel.store.durable import records_in, write_whole
from perfmodel.store.profiles.journal import JournalEntry, entry_paths, read_entry, write_entry
from perfmodel.store.profiles.profile_graphs import (
    all_graphs,
    find_graph,
    known_graphs,
    write_graphs,
)
from perfmodel.store.profiles.profile_tables import (
    OPERATOR_SCHEMA,
    STEP_SCHEMA,
    measurement_of,
    operator_columns,
    operator_records,
    read_table,
    step_row,
    write_table,
)


class ProfileStore:
    """Measurements under one folder, a sub-folder per device.

    ``<device>/journal/<key>.json.gz`` holds a measurement from the moment it is finished;
    :meth:`compact` turns the journal into ``<device>/{steps,operators,graphs}-<id>.parquet``,
    which never change again. The steps file is written last: without it the other two do not
    count. ``<device>/failures/<key>.json`` holds what could not be measured, with the reason.

    Parameters
    ----------
    folder : Path
        Made when something is written.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def append(self, measurement: Measurement, graph: Graph | str) -> None:
        """Store a measurement durably; when this returns, no crash can lose it."""
        text = graph if isinstance(graph, str) else to_json(graph).decode()
        device = self._device(measurement.step.accelerator)
        with records_in(self.folder):
            write_entry(device / "journal", measurement, text)
            (device / "failures" / f"{key_of(measurement.step)}.json").unlink(missing_ok=True)

    def append_failure(self, key: str, *, accelerator: str, failure: Mapping[str, Any]) -> None:
        """Store that a job could not be measured.

        Parameters
        ----------
        key : str
            :func:`perfmodel.profilers.wire.workload_key` of the job.
        failure : mapping
            ``job``, ``kind``, ``reason``, ``failed_at``, and ``capacity_bytes`` of a device whose
            memory did not suffice.
        """
        path = self._device(accelerator) / "failures" / f"{key}.json"
        options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
        with records_in(self.folder):
            write_whole(path, orjson.dumps(dict(failure), option=options))

    def finished_keys(self, accelerator: str, *, noisy: bool = True) -> set[str]:
        """Return the job keys of every readable measurement on an accelerator.

        A damaged journal file does not count, so that its workload is measured again.

        Parameters
        ----------
        noisy : bool
            Whether those count that were disturbed, and never measured without.
        """
        device = self._device(accelerator)
        steps = [one.step for one in self._from_tables(device, _ignore, operators=False)]
        for path in entry_paths(device / "journal"):
            with suppress(StoreError):
                steps.append(read_entry(path).measurement.step)
        return {key_of(step) for step in steps if noisy or not step.noisy}

    def failures(self, accelerator: str) -> dict[str, dict[str, Any]]:
        """Return the failures on an accelerator by job key."""
        found = {}
        for path in sorted((self._device(accelerator) / "failures").glob("*.json")):
            with suppress(ValueError):
                found[path.stem] = orjson.loads(path.read_bytes())
        return found

    def devices(self) -> list[str]:
        """Return the names of the device folders that hold measurements."""
        if not self.folder.is_dir():
            return []
        return sorted(
            path.name
            for path in self.folder.iterdir()
            if any(path.glob("steps-*.parquet")) or any(path.glob("journal/*.json.gz"))
        )

    def iter_measurements(
        self,
        device: str | None = None,
        *,
        operators: bool = True,
        on_damaged: Callable[[StoreError], None] | None = None,
    ) -> Iterator[Measurement]:
        """Yield every measurement, each workload once, the newest one of it.

        Parameters
        ----------
        device : str, optional
            An accelerator's name; all by default.
        operators : bool
            False leaves the operator records out, which is much faster.
        on_damaged : callable, optional
            Called with the error of each damaged file, which is then left out; by default the
            error is raised.

        Raises
        ------
        StoreError
            A damaged file; names it.
        """
        report = on_damaged or _raise
        for name in [folder_name(device)] if device else self.devices():
            newest: dict[str, Measurement] = {}
            for one in self._of_device(self.folder / name, report, operators):
                known = newest.get(one.step.workload_hash)
                if known is None or _measured_at(known) <= _measured_at(one):
                    newest[one.step.workload_hash] = one
            yield from newest.values()

    def steps(
        self,
        device: str | None = None,
        *,
        on_damaged: Callable[[StoreError], None] | None = None,
    ) -> list[StepRecord]:
        """Return every step record, each workload once; see :meth:`iter_measurements`."""
        measurements = self.iter_measurements(device, operators=False, on_damaged=on_damaged)
        return [one.step for one in measurements]

    def operators(self, workload_hash: str) -> tuple[OperatorRecord, ...]:
        """Return the operator records of a workload, by node; empty where there are none."""
        for one in self.iter_measurements(on_damaged=_ignore):
            if one.step.workload_hash == workload_hash:
                return one.operators
        return ()

    def graph(self, graph_hash: str) -> Graph:
        """Return a graph by its content hash.

        Raises
        ------
        UnknownGraphError
            No file holds it.
        StoreError
            No readable file holds it, and one is damaged; names it.
        """
        damaged: list[StoreError] = []
        for name in self.devices():
            device = self.folder / name
            for path in _graph_files(device):
                text = find_graph(path, graph_hash, on_damaged=damaged.append)
                if text is not None:
                    return from_json(text)
            for found, text in _journal_graphs(device, damaged.append):
                if found == graph_hash:
                    return from_json(text)
        for error in damaged:
            raise error
        raise UnknownGraphError(graph_hash, hint=f"No file under {self.folder} holds it.")

    def graphs(
        self, *, on_damaged: Callable[[StoreError], None] | None = None
    ) -> Iterator[tuple[str, Graph]]:
        """Yield every graph with its hash, each once; see :meth:`iter_measurements`."""
        report = on_damaged or _raise
        seen: set[str] = set()
        for name in self.devices():
            device = self.folder / name
            files = (all_graphs(path, on_damaged=report) for path in _graph_files(device))
            for found, text in itertools.chain(*files, _journal_graphs(device, report)):
                if found not in seen:
                    seen.add(found)
                    yield found, from_json(text)

    def has_journal(self, accelerator: str) -> bool:
        """Tell whether measurements on an accelerator wait to be compacted."""
        return any(entry_paths(self._device(accelerator) / "journal"))

    def doubt(self, accelerator: str, keys: Collection[str], reason: str) -> None:
        """Mark measurements as noisy that are in the journal still.

        Parameters
        ----------
        keys : collection of str
            Job keys; those that the journal does not hold are passed over.
        reason : str
            Joins their notes.
        """
        journal = self._device(accelerator) / "journal"
        for path in entry_paths(journal):
            if _key_of_file(path) not in keys:
                continue
            entry = read_entry(path)
            step = entry.measurement.step
            if reason in step.provenance.notes:
                continue
            notes = " ".join(filter(None, (step.provenance.notes, reason)))
            provenance = replace(step.provenance, notes=notes)
            noisy = replace(step, noisy=True, provenance=provenance)
            write_entry(journal, replace(entry.measurement, step=noisy), entry.graph_json)

    def compact(self, keys: Collection[str] | None = None) -> list[Path]:
        """Turn every journal into immutable Parquet files.

        Parameters
        ----------
        keys : collection of str, optional
            Job keys of the measurements that are ready for it; all by default.

        Returns
        -------
        list of Path
            The new files; empty when there was nothing to do.

        Raises
        ------
        StoreError
            A damaged journal file; nothing of its device has been changed. Or the folder cannot be
            written.
        """
        written: list[Path] = []
        for name in self.devices():
            device = self.folder / name
            paths = entry_paths(device / "journal")
            ready = (path for path in paths if keys is None or _key_of_file(path) in keys)
            entries = [read_entry(path) for path in ready]
            if entries:
                with records_in(self.folder):
                    written += self._write_tables(device, entries)
                    for entry in entries:
                        entry.path.unlink()
                with suppress(OSError):  # others are still in it
                    (device / "journal").rmdir()
        return written

    def _write_tables(self, device: Path, entries: list[JournalEntry]) -> list[Path]:
        entries = sorted(entries, key=_similar_together)
        number = _number(entries)
        measurements = [entry.measurement for entry in entries]
        known = set().union(*map(known_graphs, _graph_files(device)))
        graphs = {e.measurement.step.graph_hash: e.graph_json for e in entries}
        paths = {
            kind: device / f"{kind}-{number}.parquet" for kind in ("graphs", "operators", "steps")
        }
        write_graphs(paths["graphs"], {k: v for k, v in graphs.items() if k not in known})
        write_table(
            paths["operators"], pa.table(operator_columns(measurements), schema=OPERATOR_SCHEMA)
        )
        rows = [step_row(one) for one in measurements]
        write_table(paths["steps"], pa.Table.from_pylist(rows, schema=STEP_SCHEMA))
        return list(paths.values())

    def _of_device(
        self, device: Path, report: Callable[[StoreError], None], operators: bool
    ) -> Iterator[Measurement]:
        yield from self._from_tables(device, report, operators=operators)
        for path in entry_paths(device / "journal"):
            try:
                yield read_entry(path).measurement
            except StoreError as error:
                report(error)

    def _from_tables(
        self, device: Path, report: Callable[[StoreError], None], *, operators: bool
    ) -> Iterator[Measurement]:
        for path in sorted(device.glob("steps-*.parquet")):
            try:
                rows = read_table(path, STEP_SCHEMA).to_pylist()
                records: dict[str, list[OperatorRecord]] = {}
                if operators:
                    table = read_table(_sibling(path, "operators"), OPERATOR_SCHEMA)
                    records = operator_records(table)
            except StoreError as error:
                report(error)
                continue
            for row in rows:
                yield measurement_of(row, records.get(row["workload_hash"], ()))

    def _device(self, accelerator: str) -> Path:
        return self.folder / folder_name(accelerator)


def folder_name(accelerator: str) -> str:
    """Return an accelerator's name as a folder: letters, digits, dots and dashes."""
    kept = [c if c.isalnum() or c in ".-" else "-" for c in accelerator]
    return "".join(kept).strip(".-") or "unnamed"


def _graph_files(device: Path) -> list[Path]:
    return [_sibling(path, "graphs") for path in sorted(device.glob("steps-*.parquet"))]


def _sibling(steps_path: Path, kind: str) -> Path:
    return steps_path.with_name(steps_path.name.replace("steps-", f"{kind}-", 1))


def _journal_graphs(
    device: Path, report: Callable[[StoreError], None]
) -> Iterator[tuple[str, str]]:
    for path in entry_paths(device / "journal"):
        try:
            entry = read_entry(path)
        except StoreError as error:
            report(error)
        else:
            yield entry.measurement.step.graph_hash, entry.graph_json


def _number(entries: Iterable[JournalEntry]) -> str:
    """Name the files after their content: the same journal gives the same files."""
    digest = hashlib.sha256()
    for entry in entries:
        step = entry.measurement.step
        digest.update(f"{key_of(step)} {step.provenance.measured_at}\n".encode())
    return digest.hexdigest()[:12]


def _similar_together(entry: JournalEntry) -> tuple[str, str, str, int]:
    step = entry.measurement.step
    return step.family, step.model, str(step.mode), step.batch_size


def _key_of_file(path: Path) -> str:
    return path.name.partition(".")[0]


def _measured_at(measurement: Measurement) -> str:
    return measurement.step.provenance.measured_at


def _raise(error: StoreError) -> None:
    raise error


def _ignore(error: StoreError) -> None:
    return None
