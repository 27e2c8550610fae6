"""Measured data-parallel steps beside the step of the same job on one accelerator.

A row is a step on several accelerators of one host with what one accelerator of that kind needs
for the same model, precision, samples and software. How the published scripts share gradients is
not in the tables; these facts are:

- BERT and GNMT in mixed precision keep a half-precision copy of the model, whose gradients they
  reduce; so did SSD and NCF until PyTorch 1.13. The others reduce fp32.
- The Transformer-XL runs of the Lambda set were started without the option that wraps the model
  for several processes: with 2 GB of gradients they scale perfectly on machines where other jobs
  of a tenth of that take several times as long. Their replicas share nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.arrays import FloatArray
from perfmodel.graph.job import Job
from perfmodel.importers.own_profiles import own_catalog, read_own_profiles
from perfmodel.importers.published import Imported, PublishedPlacement
from perfmodel.importers.registry import read_format
from perfmodel.placement.data_parallel.step_profile import StepProfile
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.fabric.host_link import has_peer_access
from perfmodel.placement.fabric.world_group import world_columns
from perfmodel.placement.job_types.job_type_guess import job_type_profile
from perfmodel.placement.topology.topology import Placement
from perfmodel.training.captures.capture_key import capture_key
from perfmodel.training.captures.kept_profiles import step_profiles
from perfmodel.types import Mode, Precision

#: Sets with steps on one and on several accelerators.
SETS = ("lambda", "deep-learning-examples")
#: Source of own rows.
OWN = "profiles"

#: Trained parameters of jobs that have no workload.
PARAMETERS: Mapping[str, float] = MappingProxyType(
    {
        "transformer-xl-base-adaptive": 192e6,
        "transformer-xl-large-adaptive": 257e6,
    }
)

_HALF_ALWAYS = (
    "bert_base_squad", "bert_large_squad", "gnmt",
    "transformer-xl-base-adaptive", "transformer-xl-large-adaptive",
)  # fmt: skip
_HALF_UNTIL_1_13 = ("ssd", "ncf")
#: Tasks of the Lambda set whose replicas share no gradients.
SHARE_NOTHING = ("transformerxlbase", "transformerxllarge")


@dataclass(frozen=True, kw_only=True, slots=True)
class DataParallelRow:
    """One measured step on several accelerators.

    Parameters
    ----------
    alone_s : float
        Step of the same job on one accelerator.
    spec : AcceleratorSpec or None
        Of an accelerator that the catalogue does not know.
    """

    source: str
    record: PublishedPlacement
    alone_s: float
    profile: StepProfile
    spec: AcceleratorSpec | None = None

    @property
    def accelerator(self) -> str:
        """Catalogue name."""
        return self.record.placement.nodes[0].accelerator

    @property
    def count(self) -> int:
        """Accelerators."""
        return self.record.placement.accelerator_count

    @property
    def zero_stage(self) -> int:
        """What replicas share out."""
        return self.record.placement.plan.zero_stage

    @property
    def model(self) -> str:
        """Name of the model, or of the job where there is none."""
        job = self.record.job
        return self.record.job_type if job is None or job.model is None else job.model

    @property
    def machine(self) -> str:
        """What names the machine best: source, accelerators, link and software."""
        settings = self.record.settings
        words = (self.source, self.count, self.accelerator, settings.get("interconnect", ""))
        return " ".join(map(str, (*words, settings.get("torch", ""))))

    @property
    def job(self) -> str:
        """What has the same step on one accelerator, for people."""
        settings = self.record.settings
        words = (self.record.job_type, self.record.batch_size, settings["precision"])
        return " ".join(map(str, (*words, self.accelerator, settings.get("torch", ""))))


def data_parallel_rows(data: Path, profiles: Path | None = None) -> tuple[DataParallelRow, ...]:
    """Read every row of the sets, and own ones.

    Parameters
    ----------
    profiles : Path or None
        Folder of own measurements of several processes; None: public tables alone.

    Returns
    -------
    tuple of DataParallelRow
        Without rows whose job cannot be captured.
    """
    pairs: list[tuple[str, PublishedPlacement, float]] = []
    for name in SETS:
        pairs.extend((name, *pair) for pair in paired(read_format(name, data)))
    catalog = Catalog.default()
    if profiles is not None:
        catalog = own_catalog(profiles)
        pairs.extend((OWN, *pair) for pair in paired(read_own_profiles(profiles)))
    of_steps = step_profiles(one.job for _, one, _ in pairs if one.job is not None)
    rows = []
    for name, record, alone_s in pairs:
        profile = _profile(name, record, of_steps)
        if profile is not None:
            spec = catalog.get(record.placement.nodes[0].accelerator) if name == OWN else None
            rows.append(
                DataParallelRow(
                    source=name, record=record, alone_s=alone_s, profile=profile, spec=spec
                )
            )
    return tuple(rows)


def paired(imported: Imported) -> list[tuple[PublishedPlacement, float]]:
    """Return each training step on several accelerators with that of the same job on one.

    Returns
    -------
    list of (PublishedPlacement, float)
        Seconds on one accelerator; records without such a step are left out.
    """
    alone: dict[object, float] = {}
    for step in imported.steps:
        alone[(step.accelerator, _job_key(step.job))] = step.step_time_s
    several = []
    for record in imported.placements:
        if record.job is not None and record.job.mode is not Mode.TRAINING:
            continue
        if record.placement.shared_with:
            continue
        if record.placement.accelerator_count == 1:
            alone[_record_key(record)] = record.step_time_s
        elif "inference" not in record.job_type:
            several.append(record)
    found = ((record, alone.get(_record_key(record))) for record in several)
    return [(record, alone_s) for record, alone_s in found if alone_s is not None]


def _record_key(record: PublishedPlacement) -> object:
    accelerator = record.placement.nodes[0].accelerator
    if record.job is not None:
        return accelerator, _job_key(record.job)
    settings = record.settings
    software = settings.get("torch"), settings["precision"]
    return accelerator, record.job_type, record.batch_size, software


def _job_key(job: Job) -> object:
    return capture_key(job), job.precision, job.memory_format, job.software.get("torch")


def _profile(
    source: str, record: PublishedPlacement, profiles: Mapping[str, StepProfile]
) -> StepProfile | None:
    item_bytes = 2.0 if _halves_gradients(record) else 4.0
    if source == "lambda" and record.job_type in SHARE_NOTHING:
        item_bytes = 0.0
    if record.job is None:
        parameters = PARAMETERS.get(record.job_type)
        if parameters is None:
            return None
        return job_type_profile(parameter_count=parameters, gradient_item_bytes=item_bytes)
    profile = profiles.get(capture_key(record.job))
    return None if profile is None else _scaled(profile, item_bytes / 4.0)


def _scaled(profile: StepProfile, factor: float) -> StepProfile:
    """Return the profile with gradients of another size."""
    return replace(
        profile,
        gradient_bytes=profile.gradient_bytes * factor,
        gradient_piece_bytes=profile.gradient_piece_bytes * factor,
    )


def _halves_gradients(record: PublishedPlacement) -> bool:
    if record.settings["precision"] != Precision.AMP_FP16.value:
        return False
    if record.job_type in _HALF_ALWAYS:
        return True
    return record.job_type in _HALF_UNTIL_1_13 and _before_1_13(record.settings.get("torch"))


def _before_1_13(torch: str | None) -> bool:
    if torch is None:
        return False
    major, minor = (int(part) for part in torch.split(".")[:2])
    return (major, minor) < (1, 13)


def columns(rows: Iterable[DataParallelRow]) -> tuple[list[StepProfile], FloatArray, FloatArray]:
    """Return profiles, steps alone and measured steps, seconds, of some rows."""
    rows = list(rows)
    return (
        [row.profile for row in rows],
        np.array([row.alone_s for row in rows]),
        np.array([row.record.step_time_s for row in rows]),
    )


def groups_of(rows: Iterable[DataParallelRow]) -> CommGroups:
    """Return the group of all accelerators of each row, one row each."""
    rows = list(rows)
    known = Catalog.default()
    for spec in {row.spec.name: row.spec for row in rows if row.spec is not None}.values():
        known = known.with_device(spec)
    fabrics = [Fabric.of(_through_host(row.record.placement, known), known) for row in rows]
    return world_columns([fabric.world_group for fabric in fabrics])


def _through_host(placement: Placement, catalog: Catalog) -> Placement:
    """Return the placement with cards that reach each other through the host's memory alone."""
    nodes = []
    for node in placement.nodes:
        bridged = node.link is not None and node.link.endswith("-bridge") and node.count == 2
        by_name = node.link is not None and node.link.startswith("nvlink")
        bridged = bridged or (by_name and not str(node.link).endswith("-bridge"))
        direct = bridged or has_peer_access(catalog.get(node.accelerator))
        nodes.append(node if direct else replace(node, link="none"))
    return replace(placement, nodes=tuple(nodes))
