"""From the labels of a node to an accelerator of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from perfmodel.devices.aliases import mig_profile
from perfmodel.devices.catalog import Catalog
from perfmodel.errors import PerfModelError
from perfmodel.lru import LruCache
from perfmodel.placement.sharing.mig import mig_part
from service.adapters.kubernetes.fields import part
from service.adapters.kubernetes.pods import Request

#: Labels that say which accelerator a node has, the most deliberate first: what people set, what
#: the device plugins of vendors discover, what clouds promise.
DEVICE_LABELS = (
    "perfmodel/accelerator",
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "habana.ai/device",
    "gpu.intel.com/product",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-tpu-accelerator",
    "k8s.amazonaws.com/accelerator",
)
#: Memory of one accelerator in MiB; tells cards of one product name apart.
_MEMORY = "nvidia.com/gpu.memory"
#: A label whose memory is off by more than this means another card of the family.
_OFF = 0.15


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceLabel:
    """The label of a node that says which accelerator it has.

    Parameters
    ----------
    memory_mib : int or None
        Of one accelerator, where the node states it.
    """

    key: str
    value: str
    memory_mib: int | None = None


def device_label(node: Mapping[str, Any]) -> DeviceLabel | None:
    """Return the label that names the accelerator of a v1.Node; None without any."""
    return label_of(part(node, "metadata", "labels"))


def label_of(labels: Mapping[str, Any]) -> DeviceLabel | None:
    """Return the label among some that names an accelerator; None without any.

    Examples
    --------
    >>> label_of({"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.memory": "15360"})
    DeviceLabel(key='nvidia.com/gpu.product', value='Tesla-T4', memory_mib=15360)
    """
    for key in DEVICE_LABELS:
        value = labels.get(key)
        if isinstance(value, str) and value:
            memory = str(labels.get(_MEMORY, ""))
            return DeviceLabel(
                key=key, value=value, memory_mib=int(memory[:12]) if memory.isdecimal() else None
            )
    return None


class DeviceTable:
    """Turns labels into names of the catalogue.

    Parameters
    ----------
    overrides : mapping of str to str
        Value of a label to catalogue name, for products that a cluster names its own way.

    Examples
    --------
    >>> table = DeviceTable(Catalog.default())
    >>> table.name(DeviceLabel(key="nvidia.com/gpu.product", value="Tesla-T4"))
    'T4'
    """

    def __init__(
        self, catalog: Catalog, overrides: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        # No label may start a measurement of this machine.
        self._catalog = catalog.with_local(None)
        self._overrides = dict(overrides)
        self._names: LruCache[tuple[DeviceLabel, str | None], str] = LruCache(4_096)

    def name(self, label: DeviceLabel, request: Request | None = None) -> str | None:
        """Return the name that stands for a label in a placement; None where nobody knows it.

        Parameters
        ----------
        request : Request or None
            Of a pod; one for a MIG slice means that slice of the card.
        """
        profile = request.profile if request else None
        known = self._names.get((label, profile))
        if known is None:
            known = self._read(label, profile) or ""
            self._names.put((label, profile), known)
        return known or None

    def _read(self, label: DeviceLabel, profile: str | None) -> str | None:
        value = self._overrides.get(label.value, label.value)
        whole = self._whole(value, label.memory_mib)
        if whole is None:
            return None
        own = mig_profile(value)
        profile = profile or (own[1] if own else None)
        if profile is None:
            return whole
        part = f"{whole}/{profile}"
        return part if self._known(part) else None

    def _whole(self, value: str, memory_mib: int | None) -> str | None:
        mig = mig_profile(value)
        found = self._known(mig[0] if mig else value)
        if found is None or memory_mib is None or mig is not None:
            return found
        stated_bytes = memory_mib * 2**20
        if abs(self._catalog.get(found).memory_bytes / stated_bytes - 1) <= _OFF:
            return found
        # "V100-SXM2" alone means the card of 16 GB; the label knows that this one has 32.
        return self._known(f"{value}-{round(memory_mib / 1024)}GB") or found

    def _known(self, name: str) -> str | None:
        try:
            whole, profile = self._catalog.whole_and_profile(name)
            return f"{whole.name}/{mig_part(whole, profile).name}" if profile else whole.name
        except PerfModelError:
            return None
