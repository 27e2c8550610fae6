"""What ``perfmodel import trace`` is told beside its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmodel.cli.subjects import job_of
from perfmodel.errors import InvalidInputError

if TYPE_CHECKING:
    from perfmodel.importers.published import Imported


def read_told_traces(paths: Sequence[Path], told: Mapping[str, Any]) -> Imported:
    """Read traces with what the options say of their job.

    Raises
    ------
    InvalidInputError
        A setting of a job, or a placement, without the model.
    """
    from perfmodel.devices.catalog import Catalog
    from perfmodel.importers.trace_files import TracedJob, import_traces
    from perfmodel.placement.topology.parse import parse_placement

    settings = dict(told)
    model = settings.pop("model")
    placement, accelerator = settings.pop("placement"), settings.pop("accelerator")
    if model is None and (placement or any(v not in (None, ()) for v in settings.values())):
        raise InvalidInputError("Say which job ran: --model timm/resnet50, with its settings.")
    return import_traces(
        list(_files(paths)),
        TracedJob(
            job=None if model is None else job_of({"model": model}, settings),
            placement=None if placement is None else parse_placement(placement),
            accelerator=Catalog.default().get(accelerator) if accelerator else None,
        ),
    )


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(one for one in path.rglob("*") if one.is_file())
        else:
            yield path
