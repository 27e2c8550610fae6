"""Take measurements of several processes one after the other, store them, and print them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfmodel.cli.failures import EXIT_FAILED, EXIT_SOME_FAILED
from perfmodel.cli.output import duration, percent, print_json, print_table
from perfmodel.cli.progress_bar import ProgressBar, end_in
from perfmodel.errors import InvalidInputError, MeasurementError

if TYPE_CHECKING:
    from perfmodel.process_records import ProcessRecord


@dataclass(frozen=True, kw_only=True)
class Task:
    """One measurement: what it is called, and what takes it."""

    label: str
    measure: Callable[[], Sequence[ProcessRecord]]


def run_tasks(tasks: Sequence[Task], out: Path, *, as_json: bool) -> None:
    """Take each measurement alone on the machine, store what it returns, and print all of it.

    One that fails does not end the others. The exit code says whether any did.
    """
    from perfmodel.profilers.device_lock import machine_lock
    from perfmodel.store.profiles.process_store import ProcessStore

    store, begin_s = ProcessStore(out), time.monotonic()
    records: list[ProcessRecord] = []
    failures: list[dict[str, str]] = []
    with ProgressBar() as bar:
        for done, task in enumerate(tasks):
            end = _end(begin_s, done, len(tasks))
            bar.advance(task.label, done, len(tasks), end)
            bar.line(f"[{done + 1}/{len(tasks)}] {task.label}  ({end})")
            try:
                with machine_lock():
                    found = task.measure()
            except (MeasurementError, InvalidInputError) as error:
                failures.append({"measurement": task.label, "reason": str(error)})
                bar.line(f"  failed: {error}")
                continue
            for record in found:
                store.append(record)
            records += found
    store.compact()
    _print(records, failures, out, as_json=as_json)


def _end(begin_s: float, done: int, total: int) -> str:
    return end_in((time.monotonic() - begin_s) / done * (total - done) if done else None)


def _print(
    records: Sequence[ProcessRecord], failures: list[dict[str, str]], out: Path, *, as_json: bool
) -> None:
    from perfmodel.process_records import record_to_dict

    if as_json:
        measured = [record_to_dict(record) for record in records]
        print_json({"measured": measured, "failed": failures, "folder": str(out)})
    else:
        if records:
            columns = ("what", "where", "time", "spread", "others used")
            print_table(columns, map(_row, records), right="llrrr")
        click.echo(f"{len(records)} measured, {len(failures)} failed. Records are in {out}.")
    if failures:
        click.get_current_context().exit(EXIT_SOME_FAILED if records else EXIT_FAILED)


def _row(record: ProcessRecord) -> tuple[str, ...]:
    from perfmodel.process_records import device_of

    repeats = record.repeats
    noisy = " noisy" if repeats.noisy else ""
    return (
        " ".join(_words(record)),
        device_of(record),
        duration(repeats.time_s),
        percent(repeats.spread) + noisy,
        percent(repeats.other_load),
    )


def _words(record: ProcessRecord) -> Iterator[str]:
    from perfmodel.process_records import subject_of

    subject = subject_of(record)
    names = ("collective", "size_bytes", "model", "sharding", "input_kind", "locality")
    yield from (str(subject[name]) for name in names if name in subject)
    for name in ("ranks", "replicas", "workers"):
        if name in subject:
            yield f"{name}={subject[name]}"
    if subject.get("neighbour"):
        yield f"beside {subject['neighbour'].get('model', 'a job')}"
