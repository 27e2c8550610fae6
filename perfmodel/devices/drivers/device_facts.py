"""What a driver says about one device, before anybody knows which accelerator it is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

#: Software stacks that run kernels on a device.
DeviceBackend = Literal["cpu", "cuda", "rocm", "xpu"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceFacts:
    """One device as its drivers describe it; what none of them says is None.

    Parameters
    ----------
    name : str
        As the driver prints it (``"NVIDIA A100-SXM4-80GB"``); for a CPU its canonical name.
    backend : str
        ``"cpu"``, ``"cuda"``, ``"rocm"`` or ``"xpu"``.
    index : int
        Position among the devices of the backend that this process sees.
    memory_bytes : float or None
        What the driver offers; up to 7 % less than the nominal capacity.
    power_limit_w, default_power_limit_w : float or None
        The limit that is set, and the one that the board was made for.
    mig_profile : str or None
        ``"1g.10gb"`` where the device is a slice; None for a whole one.
    pci_id : str or None
        Vendor, device and subsystem, hexadecimal: ``"10de:20b2:10de:1463"``.
    pci_address : str or None
        Where the board is plugged in, domain, bus and device: ``"0000:43:00"``.
    architecture : str or None
        ``"sm_80"``, ``"gfx942"``: what kernels are compiled for.
    core_count : int or None
        SMs or compute units that kernels can use.
    found_by : tuple of str
        Who said so, best informed first: ``"nvml"``, ``"amdsmi"``, ``"torch"``, ``"os"``.
    """

    name: str
    backend: DeviceBackend
    index: int = 0
    memory_bytes: float | None = None
    driver: str | None = None
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None
    mig_profile: str | None = None
    pci_id: str | None = None
    pci_address: str | None = None
    uuid: str | None = None
    architecture: str | None = None
    core_count: int | None = None
    cache_bytes: float | None = None
    clock_hz: float | None = None
    found_by: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain JSON types; what is unknown is left out."""
        plain = {key: value for key, value in asdict(self).items() if value is not None}
        return {**plain, "found_by": list(self.found_by)}


def pci_address(domain: int, bus: int, device: int) -> str:
    """Return an address as all drivers of a device would write it.

    Examples
    --------
    >>> pci_address(0, 0x43, 0)
    '0000:43:00'
    """
    return f"{domain:04x}:{bus:02x}:{device:02x}"


def merge_facts(first: DeviceFacts, *others: DeviceFacts) -> DeviceFacts:
    """Return the facts of one device, those of earlier sources before those of later ones."""
    plain: dict[str, Any] = {}
    for facts in (first, *others):
        for key, value in facts.to_dict().items():
            plain.setdefault(key, value)
    found_by = tuple(dict.fromkeys(name for facts in (first, *others) for name in facts.found_by))
    return DeviceFacts(**{**plain, "found_by": found_by})
