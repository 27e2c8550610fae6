"""What a predictor of kernels has learned from: devices and implementations of each group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import StrArray
from perfmodel.features.kernels.kernel_calls import KernelCalls
from perfmodel.features.kernels.kernel_columns import framework

_Words = Mapping[str, tuple[str, ...]]


def _none() -> _Words:
    return MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class KernelsSeen:
    """Devices and implementations that were learned from.

    Parameters
    ----------
    devices : mapping of str to tuple of str
        Names by group of operators.
    usual : mapping of str to tuple of str
        By group and type, ``"product bf16"``, and by group alone: of each framework the
        implementation that most calls are of. Where a question leaves the implementation open,
        the mean over these answers.
    """

    devices: _Words = field(default_factory=_none)
    usual: _Words = field(default_factory=_none)

    @classmethod
    def of(cls, calls: KernelCalls, group: StrArray) -> Self:
        """Collect them from calls."""
        names, typed = calls.device_names, np.char.add(np.char.add(group, " "), calls.dtype)
        devices = {g: tuple(np.unique(names[group == g]).tolist()) for g in np.unique(group)}
        keys = np.concatenate([np.unique(group), np.unique(typed)])
        usual = {
            str(key): _most_of_each_framework(calls.take((group == key) | (typed == key)))
            for key in keys
        }
        return cls(devices={str(g): found for g, found in devices.items()}, usual=usual)

    def is_known(self, calls: KernelCalls, group: StrArray) -> npt.NDArray[np.bool_]:
        """Tell of each call whether its group was learned from on its device."""
        names, known = calls.device_names, np.zeros(len(calls), dtype=np.bool_)
        for name, devices in self.devices.items():
            known |= (group == name) & np.isin(names, devices)
        return known

    def implementations(self, group: str, dtype: str) -> tuple[str, ...]:
        """Return those that answer where none is stated; ``("",)`` for a group without any."""
        return self.usual.get(f"{group} {dtype}") or self.usual.get(group) or ("",)

    def to_dict(self) -> dict[str, dict[str, list[str]]]:
        """Return them as JSON values."""
        return {
            "devices": {group: list(names) for group, names in self.devices.items()},
            "usual": {group: list(words) for group, words in self.usual.items()},
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` gave."""
        devices, usual = (
            {str(group): tuple(str(word) for word in words) for group, words in table.items()}
            for table in (stored["devices"], stored["usual"])
        )
        return cls(devices=devices, usual=usual)


def _most_of_each_framework(calls: KernelCalls) -> tuple[str, ...]:
    first = framework(calls)
    found = []
    for name in np.unique(first):
        counted = Counter(calls.kernel[first == name].tolist())
        # Of equally many the last word: versions are numbered upwards.
        found.append(max(counted.items(), key=lambda item: (item[1], item[0]))[0])
    return tuple(found)
