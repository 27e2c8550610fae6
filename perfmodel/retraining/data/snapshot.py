"""The snapshot: an immutable list of what a retraining rests on, with a digest of each source."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from perfmodel.errors import TrainingError
from perfmodel.importers.published import Imported
from perfmodel.predictors.folds import Progress
from perfmodel.retraining.data.copied_profiles import copy_profiles, records_digest
from perfmodel.retraining.data.observed_cells import observations_digest
from perfmodel.retraining.data.sources import OBSERVATIONS, DataSources, check_names, is_left_out
from perfmodel.retraining.settings import RetrainSettings
from perfmodel.store.durable import write_whole
from perfmodel.store.retraining.observed_data import (
    AcceptedObservation,
    CampaignRecord,
    ObservedDataStore,
)
from perfmodel.training.provenance import time_now
from perfmodel.training.samples.public_data import OPERATOR_FORMATS, STEP_FORMATS, read_formats

#: Observations that are looked at, the newest.
MOST_OBSERVATIONS = 50_000
PROFILES = "profiles"
_OBSERVED = "observations.jsonl"

Facts = dict[str, dict[str, Any]]


def take_snapshot(
    folder: Path,
    sources: DataSources,
    settings: RetrainSettings,
    observed: ObservedDataStore,
    progress: Progress,
) -> dict[str, Any]:
    """Freeze what is learned from into a folder, and list it.

    Returns
    -------
    dict
        ``taken_at``, the time that the version will state; ``sources``: number, digest and place
        of each; ``records``: device and workload of each record that is taken; ``left_out``: names
        and reasons; ``data``: the folder of public tables.

    Raises
    ------
    TrainingError
        A file is damaged or holds nothing, and nothing says that such are left out; names it.
    InvalidInputError
        A source is to be left out that is not there.
    """
    left_out: dict[str, str] = {}
    campaigns = observed.campaign_records()
    folders = _folders(sources, campaigns, left_out)
    records, facts = _profiles(folders, folder / PROFILES, campaigns, settings, left_out)
    facts |= _public(sources.data, settings, left_out)
    facts |= _observations(folder, observed, settings, left_out)
    check_names(settings.without, {**facts, **left_out})
    for name, reason in left_out.items():
        progress(f"left out: {name} ({reason})")
    for name, fact in facts.items():
        progress(f"{name}: {fact['count']} measurements")
    return {
        "taken_at": time_now(),
        "sources": facts,
        "records": records,
        "left_out": left_out,
        "data": None if sources.data is None else str(sources.data.absolute()),
    }


def read_observed(folder: Path) -> list[AcceptedObservation]:
    """Return the observations that a snapshot holds."""
    lines = (folder / _OBSERVED).read_bytes().splitlines()
    return [AcceptedObservation(**orjson.loads(line)) for line in lines]


def read_public(snapshot: Mapping[str, Any]) -> dict[str, Imported]:
    """Return the public tables of a snapshot.

    Raises
    ------
    TrainingError
        They are not what they were when the snapshot was taken.
    """
    if snapshot["data"] is None:
        return {}
    data = Path(snapshot["data"])
    names = [name for name in (*STEP_FORMATS, *OPERATOR_FORMATS) if name in snapshot["sources"]]
    found = read_formats(data, names)
    for name in names:
        if name not in found or _tables_digest(found[name]) != snapshot["sources"][name]["digest"]:
            raise TrainingError(
                f"The tables of {name} in {data} have changed since the snapshot was taken. Cancel "
                "the retraining and start it again."
            )
    return found


def _folders(
    sources: DataSources, campaigns: Sequence[CampaignRecord], left_out: dict[str, str]
) -> list[Path]:
    """Return all folders of records: those that are named, and those of campaigns."""
    folders: dict[Path, None] = {}
    for folder in sources.profiles:
        if folder.is_dir():
            folders[_named(folder)] = None
        else:
            left_out[str(folder)] = "there is no such folder"
    for folder_text in sorted({one.folder for one in campaigns}):
        folder = Path(folder_text)
        if folder.is_dir():
            folders[_named(folder)] = None
        else:
            names = sorted({one.campaign for one in campaigns if one.folder == folder_text})
            left_out[f"campaigns in {folder_text}"] = (
                f"this host cannot read the folder; campaigns {', '.join(names)}"
            )
    return list(folders)


def _named(folder: Path) -> Path:
    """Return a folder by its whole path, of which sources have the name, whatever it was put as."""
    return Path(os.path.abspath(folder))


def _profiles(
    folders: Sequence[Path],
    into: Path,
    campaigns: Sequence[CampaignRecord],
    settings: RetrainSettings,
    left_out: dict[str, str],
) -> tuple[list[list[str]], Facts]:
    copied = copy_profiles(folders, into, campaigns, settings.without)
    for source, count in copied.left_out.items():
        left_out[source] = f"as asked for; {count} measurements"
    for path, one in copied.damaged.items():
        if not settings.without_damaged:
            raise TrainingError(
                f"{path} cannot be learned from: {one.reason} Restore or remove it, leave out "
                f"{one.source!r}, or leave out whatever is damaged (without_damaged)."
            )
        left_out[path] = one.reason
    taken: list[list[str]] = []
    facts: Facts = {}
    for source, records in copied.records.items():
        if is_left_out(source, settings.without):
            left_out[source] = f"as asked for; {len(records)} measurements"
            continue
        taken += [[one.accelerator, one.workload_hash] for one in records]
        facts[source] = {"count": len(records), "digest": records_digest(records)}
    return sorted(taken), facts


def _public(data: Path | None, settings: RetrainSettings, left_out: dict[str, str]) -> Facts:
    facts: Facts = {}
    found = {} if data is None else read_formats(data, (*STEP_FORMATS, *OPERATOR_FORMATS))
    for name, imported in found.items():
        count = len(imported.steps) + len(imported.kernels)
        if is_left_out(name, settings.without):
            left_out[name] = f"as asked for; {count} measurements"
            continue
        facts[name] = {
            "count": count, "digest": _tables_digest(imported), "rejected": len(imported.rejected),
        }  # fmt: skip
    return facts


def _observations(
    folder: Path,
    observed: ObservedDataStore,
    settings: RetrainSettings,
    left_out: dict[str, str],
) -> Facts:
    by_reporter: dict[str, list[AcceptedObservation]] = {}
    for one in observed.newest_accepted(MOST_OBSERVATIONS):
        by_reporter.setdefault(f"{OBSERVATIONS}/{one.reporter or 'unknown'}", []).append(one)
    facts: Facts = {}
    kept: list[AcceptedObservation] = []
    for source, found in sorted(by_reporter.items()):
        if is_left_out(source, settings.without):
            left_out[source] = f"as asked for; {len(found)} measurements"
            continue
        kept += found
        facts[source] = {"count": len(found), "digest": observations_digest(found)}
    lines = [orjson.dumps(dataclasses.asdict(one)) for one in kept]
    write_whole(folder / _OBSERVED, b"".join(line + b"\n" for line in lines))
    return facts


def _tables_digest(imported: Imported) -> str:
    digest = hashlib.sha256()
    for record in (*imported.steps, *imported.kernels):
        digest.update(repr(record).encode())
    return digest.hexdigest()
