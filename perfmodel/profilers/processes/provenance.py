"""Where, when and with what several processes measured together."""

from __future__ import annotations

from datetime import UTC, datetime

from perfmodel.devices.codec import spec_to_dict
from perfmodel.devices.extras import installed_version
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.profilers.measure import software_versions
from perfmodel.records import Provenance


def provenance_of(
    accelerator: AcceleratorSpec, *, licence: str, threads: int | None = None
) -> Provenance:
    """Return the provenance of what is measured now.

    Parameters
    ----------
    accelerator : AcceleratorSpec
        What one process has.
    threads : int or None
        CPU threads of one process; None: as many as its cores.
    """
    return Provenance(
        accelerator=spec_to_dict(accelerator),
        software=software_versions(),
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        source=f"perfmodel {installed_version('perfmodel') or 'unknown'}",
        licence=licence,
        threads=threads if threads is not None else _threads(accelerator),
    )


def _threads(accelerator: AcceleratorSpec) -> int | None:
    return accelerator.core_count if accelerator.kind == "cpu" else None
