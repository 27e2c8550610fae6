"""What a predictor of kernels has learned from: devices and implementations of each group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from perfmodel.features.arrays import BoolArray, StrArray
from perfmodel.features.kernels.kernel_calls import KernelCalls
from perfmodel.features.kernels.kernel_columns import framework
from perfmodel.features.kernels.kernel_work import MATRIX_OPS, has_units, kernel_dtype

#: Devices of a maker that show how what was learned carries over to others of it.
_SEVERAL = 2
#: Types whose products run alike.
_SIXTEEN_BITS = ("bf16", "fp16")
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
        By group and type, ``"product bf16"``, and by group alone, each with a maker of devices,
        ``"product bf16 NVIDIA"``, and without: of each framework the implementation that most calls
        are of. Where a question leaves the implementation open, the mean over these answers.
    kinds : mapping of str to tuple of str
        By group: operator and type of what was learned from, ``"gemm bf16"``, and with a maker,
        ``"gemm bf16 NVIDIA"``, where it was on two devices of that maker at least: with one it is
        not known how they carry over.
    """

    devices: _Words = field(default_factory=_none)
    usual: _Words = field(default_factory=_none)
    kinds: _Words = field(default_factory=_none)

    @classmethod
    def of(cls, calls: KernelCalls, group: StrArray) -> Self:
        """Collect them from calls."""
        names, typed = calls.device_names, np.char.add(np.char.add(group, " "), calls.dtype)
        devices = {g: tuple(np.unique(names[group == g]).tolist()) for g in np.unique(group)}
        usual = {
            str(key): _most_of_each_framework(calls.take(words == key))
            for kind in (group, typed)
            for words in (kind, np.char.add(np.char.add(kind, " "), calls.maker_names))
            for key in np.unique(words)
        }
        return cls(
            devices={str(g): found for g, found in devices.items()},
            usual=usual,
            kinds={str(g): _learned_kinds(calls.take(group == g), str(g)) for g in devices},
        )

    def is_known(self, calls: KernelCalls, group: StrArray) -> BoolArray:
        """Tell of each call whether its group was learned from on its device.

        Nobody measured products in a type that the device has no units for.
        """
        names, known = calls.device_names, np.zeros(len(calls), dtype=np.bool_)
        for name, devices in self.devices.items():
            known |= (group == name) & np.isin(names, devices)
        return known & _has_units(calls)

    def is_learned(self, calls: KernelCalls, group: StrArray) -> BoolArray:
        """Tell of each call whether its operator and type were learned from, on any device."""
        return self._is_among_kinds(_kinds(calls, group), group)

    def carries_over(self, calls: KernelCalls, group: StrArray) -> BoolArray:
        """Tell of each call whether its like was learned on several devices of its maker."""
        return self._is_among_kinds(_of_makers(calls, group), group)

    def group_carries_over(self, calls: KernelCalls, group: StrArray) -> BoolArray:
        """Tell of each call whether anything of its group was learned on several devices there."""
        found = np.zeros(len(group), dtype=np.bool_)
        for name, known in self.kinds.items():
            makers = {word.split(" ", 2)[2] for word in known if word.count(" ") > 1}
            found |= (group == name) & np.isin(calls.maker_names, sorted(makers))
        return found

    def _is_among_kinds(self, words: StrArray, group: StrArray) -> BoolArray:
        found = np.zeros(len(group), dtype=np.bool_)
        for name, known in self.kinds.items():
            found |= (group == name) & np.isin(words, known)
        return found

    def implementations(self, group: str, dtype: str, maker: str) -> tuple[str, ...]:
        """Return those that answer where none is stated; ``("",)`` for a group without any.

        Those of bf16 run fp16 as well; those of fp16 may be older than cards with bf16.
        """
        alike = _SIXTEEN_BITS if dtype == "fp16" else (dtype,)
        choices = (
            [f"{group} {one} {maker}" for one in alike], [f"{group} {maker}"],
            [f"{group} {one}" for one in alike], [group],
        )  # fmt: skip
        found = ({w for key in keys for w in self.usual.get(key, ())} for keys in choices)
        return next((tuple(sorted(words)) for words in found if words), ("",))

    def to_dict(self) -> dict[str, dict[str, list[str]]]:
        """Return them as JSON values."""
        return {
            "devices": {group: list(names) for group, names in self.devices.items()},
            "usual": {group: list(words) for group, words in self.usual.items()},
            "kinds": {group: list(words) for group, words in self.kinds.items()},
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` gave."""
        devices, usual, kinds = (
            {str(group): tuple(str(word) for word in words) for group, words in table.items()}
            for table in (stored["devices"], stored["usual"], stored["kinds"])
        )
        return cls(devices=devices, usual=usual, kinds=kinds)


def _has_units(calls: KernelCalls) -> BoolArray:
    found = ~np.isin(calls.op, MATRIX_OPS)
    for word in np.unique(calls.dtype).tolist():
        native = np.array([has_units(kernel_dtype(word), one) for one in calls.devices] or [True])
        found |= (calls.dtype == word) & native[calls.device]
    return found


def _kinds(calls: KernelCalls, group: StrArray) -> StrArray:
    """Return what makes calls alike: streams are in all types, and both types of 16 bits are."""
    streams = group == "pointwise"
    op = np.where(streams, "stream", calls.op)
    dtype = np.where(
        streams, "any", np.where(np.isin(calls.dtype, _SIXTEEN_BITS), "bf16", calls.dtype)
    )
    return np.char.add(np.char.add(op, " "), dtype)


def _of_makers(calls: KernelCalls, group: StrArray) -> StrArray:
    return np.char.add(np.char.add(_kinds(calls, group), " "), calls.maker_names)


def _learned_kinds(calls: KernelCalls, group: str) -> tuple[str, ...]:
    groups = np.full(len(calls), group)
    found = set(_kinds(calls, groups).tolist())
    words = _of_makers(calls, groups)
    several = {
        str(word)
        for word in np.unique(words)
        if len(np.unique(calls.device[words == word])) >= _SEVERAL
    }
    return tuple(sorted(found | several))


def _most_of_each_framework(calls: KernelCalls) -> tuple[str, ...]:
    first = framework(calls)
    found = []
    for name in np.unique(first):
        counted = Counter(calls.kernel[first == name].tolist())
        # Of equally many the last word: versions are numbered upwards.
        found.append(max(counted.items(), key=lambda item: (item[1], item[0]))[0])
    return tuple(found)
