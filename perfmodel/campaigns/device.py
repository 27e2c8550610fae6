"""The device that a worker measures on."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perfmodel.campaigns.entering import ANY
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.profilers.device_lock import device_lock_path

#: Longest time that a device may take to show that it is there, seconds.
_ANSWER_S = 120.0
_LOOK = (
    "import sys; from perfmodel.profilers.runtime import open_runtime; open_runtime(sys.argv[1])"
)


def _always() -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class CampaignDevice:
    """A device of this machine.

    Parameters
    ----------
    device : str
        As :func:`~perfmodel.profilers.runtime.open_runtime` takes it.
    host : str
        Name of the machine in the network.
    is_present : callable
        Asked after a measurement has failed: whether the device still answers.
    notes : tuple of str
        What a reader of its measurements has to know, a sentence each.
    """

    spec: AcceleratorSpec
    device: str = "cpu"
    host: str = socket.gethostname()
    is_present: Callable[[], bool] = _always
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> frozenset[str]:
        """What tasks may ask for to be measured here."""
        return frozenset({ANY, self.spec.kind, self.spec.name})

    @property
    def machine(self) -> str:
        """By which its measurements are told from those of equal devices."""
        slot = device_lock_path(self.device).stem.removeprefix("perfmodel-")
        return f"{self.host}/{slot}/{self.spec.name}"

    @property
    def turn_lock(self) -> Path:
        """File that the workers of this device lock in turn.

        Another one than that of :func:`~perfmodel.profilers.device_lock.machine_lock`, which the
        process that measures holds: whoever measures outside of a campaign waits for that one.
        """
        own = device_lock_path(self.device)
        return own.with_name(own.name.replace("perfmodel-", "perfmodel-campaign-", 1))


def local_device(device: str = "cpu") -> CampaignDevice:
    """Return a device of this machine; one that is in no catalogue is measured the first time.

    Parameters
    ----------
    device : str
        ``"cpu"``, ``"gpu"``, ``"gpu:1"``, ``"replay:FILE"``.
    """
    from perfmodel.profilers.described import described_device
    from perfmodel.profilers.runtime import open_runtime

    described = described_device(open_runtime(device))
    return CampaignDevice(
        spec=described.accelerator,
        device=device,
        is_present=_always if device == "cpu" else lambda: _answers(device),
        notes=described.notes,
    )


def _answers(device: str) -> bool:
    """Ask for a device in a process of its own: a driver that has failed fails in this one too."""
    try:
        asked = subprocess.run(
            [sys.executable, "-c", _LOOK, device], capture_output=True, timeout=_ANSWER_S
        )
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0
