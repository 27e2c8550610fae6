"""Records as a snapshot keeps them: copied into one folder, each known by its source."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from perfmodel.errors import StoreError
from perfmodel.records import StepRecord
from perfmodel.retraining.data.sources import CAMPAIGNS, is_left_out
from perfmodel.store.profiles import ProfileStore
from perfmodel.store.profiles.profile_store import folder_name
from perfmodel.store.retraining.observed_data import CampaignRecord


class DamagedFile(NamedTuple):
    """A file that holds no records: the source that it is of, and the reason."""

    source: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class CopiedProfiles:
    """Records in a folder that nobody else writes to.

    Parameters
    ----------
    records : mapping of str to tuple of StepRecord
        By source.
    damaged : mapping of str to DamagedFile
        Files that hold no records, by their paths.
    left_out : mapping of str to int
        Records of the sources that were left out.
    """

    records: Mapping[str, tuple[StepRecord, ...]]
    damaged: Mapping[str, DamagedFile]
    left_out: Mapping[str, int]


def copy_profiles(
    folders: Sequence[Path],
    into: Path,
    campaigns: Sequence[CampaignRecord],
    without: Sequence[str] = (),
) -> CopiedProfiles:
    """Copy the records of some folders into one, which then reads as one store.

    Of a workload that several folders hold, the newest record counts, as it does in one. What is
    damaged, or left out by the name of its folder and device, does not get into the copy: what the
    same workloads took elsewhere then counts.

    Raises
    ------
    StoreError
        A folder cannot be read, or the copy cannot be written.
    """
    damaged: dict[str, DamagedFile] = {}
    left_out: dict[str, int] = {}
    folder_of: dict[tuple[str, str, str], str] = {}
    try:
        for number, folder in enumerate(folders):
            for device in _device_folders(folder):
                records = ProfileStore(folder).steps(device.name, on_damaged=_pass_over)
                accelerator = records[0].accelerator if records else device.name
                source = f"{folder.name}/{accelerator}"
                if is_left_out(source, without):
                    left_out[source] = len(records)
                    continue
                for path, reason in _copy_device(device, into, number).items():
                    damaged[path] = DamagedFile(source, reason)
                for record in records:
                    folder_of.setdefault(_key(record), folder.name)
    except OSError as error:
        raise StoreError(
            f"Records cannot be copied for the snapshot: {error}. Check the free space."
        ) from error
    words = {key: f"{folder}/{key[0]}" for key, folder in folder_of.items()}
    for one in campaigns:
        key = one.accelerator, one.workload_hash, one.measured_at
        words[key] = f"{CAMPAIGNS}/{one.campaign}"
    by_source: dict[str, list[StepRecord]] = {}
    for record in ProfileStore(into).steps():
        source = words.get(_key(record), f"{folders[0].name}/{record.accelerator}")
        by_source.setdefault(source, []).append(record)
    return CopiedProfiles(
        records={source: tuple(found) for source, found in sorted(by_source.items())},
        damaged=damaged,
        left_out=left_out,
    )


def records_digest(records: Iterable[StepRecord]) -> str:
    """Return a SHA-256 over what records measured, in whatever order they come."""
    lines = sorted(
        f"{one.accelerator} {one.workload_hash} {one.step_time_s!r} {one.provenance.measured_at}\n"
        for one in records
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def among(keys: Iterable[Sequence[str]]) -> Callable[[StepRecord], bool]:
    """Return what tells records by device and workload."""
    known = {(key[0], key[1]) for key in keys}
    return lambda record: (record.accelerator, record.workload_hash) in known


def _key(record: StepRecord) -> tuple[str, str, str]:
    return record.accelerator, record.workload_hash, record.provenance.measured_at


def _device_folders(folder: Path) -> list[Path]:
    return [folder / folder_name(device) for device in ProfileStore(folder).devices()]


def _copy_device(device: Path, into: Path, number: int) -> dict[str, str]:
    """Copy the files of a device that can be read; return why others cannot, by their paths."""
    damaged: dict[str, str] = {}
    alone = into.parent / "alone"
    for group in _groups(device):
        shutil.rmtree(alone, ignore_errors=True)
        for path in group:
            _copy(path, alone / device.name / path.relative_to(device))
        reasons: list[StoreError] = []
        store = ProfileStore(alone)
        found = list(store.iter_measurements(on_damaged=reasons.append))
        for _ in store.graphs(on_damaged=reasons.append):
            pass
        if reasons or not found:
            why = reasons[0].message if reasons else "It holds no measurement."
            damaged[str(group[0])] = why.replace(str(alone / device.name), str(device))
            continue
        for path in group:
            relative = path.relative_to(device)
            if "journal" in relative.parts:  # of several folders with the same workload
                relative = relative.with_name(f"{number}-{relative.name}")
            _copy(path, into / device.name / relative)
    shutil.rmtree(alone, ignore_errors=True)
    return damaged


def _groups(device: Path) -> list[list[Path]]:
    """Return the files that make no sense without each other: the tables of one number."""
    numbers = sorted(path.name.removeprefix("steps-") for path in device.glob("steps-*.parquet"))
    tables = [
        [device / f"{kind}-{number}" for kind in ("steps", "operators", "graphs")]
        for number in numbers
    ]
    return tables + [[path] for path in sorted(device.glob("journal/*.json.gz"))]


def _copy(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not target.exists():  # tables are named after their content
        shutil.copyfile(path, target)


def _pass_over(error: StoreError) -> None:
    """Leave a damaged file out: it has been named before."""
