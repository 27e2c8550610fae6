"""What a fitted version knows of devices: those it learned from, and what records say since.

Trees are heard about a device that was learned from, and half as much about one that has records
since; about others not at all: they know devices, not facts of devices. In their place others are
heard there, which are told nothing of a device but what it is expected to do, the more, the more
devices the job was measured on. What is recalled of a job
(:mod:`.job_memory`) stands beside what is answered for its device, so there is a memory for each of
the three.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.steps.step import Step
from perfmodel.predictors.joint.device_beliefs import DeviceBeliefs
from perfmodel.predictors.joint.device_records import DeviceRecords
from perfmodel.predictors.joint.job_memory import JobMemory
from perfmodel.types import Framework

#: How much trees are heard about a device with records that no fit has seen: to them it is some
#: device between those that they know.
HEARD_BY_RECORDS = 0.5
#: Devices beyond the first after which trees that are told nothing of a device are heard half of
#: :data:`HEARD_BY_RECORDS` about another.
_DEVICES_TO_HEAR = 2.0
#: Variance of a job on a device that was never trained on, beyond what all its jobs share there.
_JOB_ON_NEW_DEVICE_VARIANCE = 0.085**2
#: Variance of a device whose maker no training record is of: its libraries are unknown as well.
#: Assumed; devices of one maker say nothing about it.
_UNKNOWN_MAKER_VARIANCE = 0.25**2
#: Variance of a framework that no record is of; assumed, as that of an unknown maker.
_UNKNOWN_FRAMEWORK_VARIANCE = 0.25**2
_UNKNOWN_MAKER = (
    "No accelerator of this maker was ever measured: how well its libraries use it is not known, "
    "and the interval is wider for it."
)
_UNKNOWN_FRAMEWORK = (
    "No step under {framework} was learned from: the answer is that of PyTorch, and the interval "
    "is wider for it."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownDevices:
    """Devices that a version was trained on, what records of devices say since, and memories.

    Parameters
    ----------
    trained, makers : tuple of str
        Devices that were learned from, and :func:`maker_of` each.
    frameworks : tuple of Framework
        Of the steps that were learned from.
    beliefs : DeviceBeliefs
        How far devices lie from what their facts say.
    records : mapping of str to DeviceRecords
        Of devices that were measured since.
    memory, abroad, halfway : JobMemory
        Residuals of answers as training had them, of those of the networks alone, and of those
        for devices with records since.
    """

    trained: tuple[str, ...]
    makers: tuple[str, ...]
    frameworks: tuple[Framework, ...]
    beliefs: DeviceBeliefs
    records: Mapping[str, DeviceRecords]
    memory: JobMemory
    abroad: JobMemory
    halfway: JobMemory

    def hears_trees(self, device: str) -> bool:
        """Tell whether trees are heard about a device."""
        return device in self.trained or device in self.records

    def hears_untold(self, device: str, devices: int) -> float:
        """Return the weight of trees that are told nothing of a device, in an answer for one.

        Parameters
        ----------
        devices : int
            On which the job was measured: one alone does not tell what they have in common.
        """
        if self.hears_trees(device) or devices < 2:
            return 0.0
        return HEARD_BY_RECORDS * (devices - 1) / (devices - 1 + _DEVICES_TO_HEAR)

    def memory_of(self, device: str, *, recorded: bool = False) -> JobMemory:
        """Return residuals of what is answered for a device; ``recorded``: once it has records."""
        if device in self.trained:
            return self.memory
        return self.halfway if recorded or device in self.records else self.abroad

    def job_variance(self, device: str) -> float:
        """Return the variance of a job on a device beyond what its cells elsewhere leave."""
        return 0.0 if device in self.trained else _JOB_ON_NEW_DEVICE_VARIANCE

    def doubts(self, step: Step) -> list[tuple[float, str]]:
        """Return variance and warning of a maker and of a framework that were never seen."""
        found = []
        probed = step.accelerator.name in self.beliefs.effects
        if maker_of(step.accelerator) not in self.makers and not probed:
            found.append((_UNKNOWN_MAKER_VARIANCE, _UNKNOWN_MAKER))
        framework = Framework.of(step.software)
        if framework not in self.frameworks:
            warning = _UNKNOWN_FRAMEWORK.format(framework=framework)
            found.append((_UNKNOWN_FRAMEWORK_VARIANCE, warning))
        return found

    def given(self, device: str, records: DeviceRecords) -> KnownDevices:
        """Return what is known once all records of a device are weighed anew with some more."""
        before, beliefs = self.records.get(device), self.beliefs.without([device])
        known = records if before is None else before.joined(records)
        memory, job_variance = self.memory_of(device, recorded=True), self.job_variance(device)
        noise = known.noise(memory, job_variance)
        known = known.weighed(beliefs.before_records(device), noise, beliefs.unlearned(device))
        left = known.covariance(memory, job_variance)
        return replace(
            self,
            beliefs=beliefs.given(device, known.features, known.residuals, left),
            records={**self.records, device: known},
        )

    def without(self, devices: Collection[str]) -> KnownDevices:
        """Return what is known without any record of some devices since training."""
        return replace(
            self,
            beliefs=self.beliefs.without(devices),
            records={name: r for name, r in self.records.items() if name not in devices},
        )

    def without_cells(self) -> KnownDevices:
        """Return what is known without the records since, and without any cell of a job."""
        return replace(
            self.without(self.records),
            memory=self.memory.without_cells(),
            abroad=self.abroad.without_cells(),
            halfway=self.halfway.without_cells(),
        )


def maker_of(spec: AcceleratorSpec) -> str:
    """Return the sort and the maker of a device, ``gpu/AMD``: they share drivers and libraries."""
    return f"{spec.kind}/{spec.vendor}"
