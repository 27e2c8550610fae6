"""The device that a worker measures on."""

from __future__ import annotations

import re
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perfmodel.campaigns.entering import ANY
from perfmodel.devices.spec import AcceleratorSpec


def _always() -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class CampaignDevice:
    """A device of this machine.

    Parameters
    ----------
    host : str
        Name of the machine in the network.
    slot : str
        Tells it from equal ones of the same machine, such as ``"cuda:1"``.
    is_present : callable
        Asked after a measurement has failed: whether the device still answers.
    """

    spec: AcceleratorSpec
    host: str = socket.gethostname()
    slot: str = "cpu"
    is_present: Callable[[], bool] = _always

    @property
    def words(self) -> frozenset[str]:
        """What tasks may ask for to be measured here."""
        return frozenset({ANY, self.spec.kind, self.spec.name})

    @property
    def machine(self) -> str:
        """By which its measurements are told from those of equal devices."""
        return f"{self.host}/{self.slot}/{self.spec.name}"

    @property
    def turn_lock(self) -> Path:
        """File that the workers of this device lock in turn.

        Another one than that of :func:`~perfmodel.profilers.worker.machine_lock`, which the process
        that measures holds: whoever measures outside of a campaign waits for that one.
        """
        slot = re.sub(r"[^a-z0-9]+", "-", self.slot.lower())
        return Path(tempfile.gettempdir()) / f"perfmodel-campaign-{slot}.lock"


def this_machine() -> CampaignDevice:
    """Return the processor of this machine; it is measured the first time."""
    from perfmodel.devices.local import LocalCpu

    return CampaignDevice(spec=LocalCpu().describe())
