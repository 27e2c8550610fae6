"""Which extents a kernel call is stated by, and what those are that may be left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from perfmodel.features.kernels.kernel_work import FORMULAS, kernel_dtype

#: Gives an extent that was left out from those that were stated and the element type.
_Usual = Callable[[Mapping[str, float], str], float]
#: Extents that need not be 1 or more, nor whole.
FROM_ZERO = frozenset({"context", "skew", "pad"})
#: Extents that are numbers rather than counts.
NOT_WHOLE = frozenset({"skew", "kv_element_bytes"})


@dataclass(frozen=True, kw_only=True)
class Extents:
    """Extents of an operator.

    Parameters
    ----------
    usual : mapping of str to callable
        What the others are where they are left out.
    """

    needed: tuple[str, ...]
    usual: Mapping[str, _Usual] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.needed, *self.usual)

    def filled(self, stated: Mapping[str, float], dtype: str) -> dict[str, float]:
        """Return all extents, those that were left out as usual."""
        found = dict(stated)
        for name, usual in self.usual.items():
            if name not in found:
                found[name] = usual(found, dtype)
        return found


def _always(value: float) -> _Usual:
    return lambda stated, dtype: value


def _same_as(name: str) -> _Usual:
    return lambda stated, dtype: stated[name]


def _half_the_kernel(stated: Mapping[str, float], dtype: str) -> float:
    return float(int(stated["kernel"]) // 2)


def _stored_bytes(stated: Mapping[str, float], dtype: str) -> float:
    return max(kernel_dtype(dtype).input_bytes, 1.0)


def _attention(*needed: str, **usual: float) -> Extents:
    counts = {name: _always(value) for name, value in usual.items()}
    more = {"kv_heads": _same_as("heads"), "kv_element_bytes": _stored_bytes}
    return Extents(needed=(*needed, "heads", "head_dim"), usual={**counts, **more})


_FORMS: Mapping[str, Extents] = MappingProxyType(
    {
        "gemm": Extents(needed=("m", "n", "k")),
        "bmm": Extents(needed=("batch", "m", "n", "k")),
        "conv2d": Extents(
            needed=("batch", "c_in", "c_out", "kernel", "height_out", "width_out"),
            usual={"stride": _always(1.0), "pad": _half_the_kernel},
        ),
        "attention_prefill": _attention("batch", "tokens", context=0.0),
        "attention_decode": _attention("batch", "context", tokens=1.0),
        "moe": Extents(
            needed=("tokens", "hidden", "inter", "top_k", "experts"),
            usual={
                "tensor_parallel": _always(1.0),
                "expert_parallel": _always(1.0),
                "skew": _always(0.0),
            },
        ),
    }
)
_WIDE = Extents(needed=("rows", "width"))
#: Operands that point-wise operators read where nothing is said.
_OPERANDS: Mapping[str, float] = MappingProxyType(
    {"add": 2.0, "mul": 2.0, "div": 2.0, "silu_mul": 2.0}
)


def extents_of(op: str) -> Extents:
    """Return the extents of an operator that has a formula.

    Examples
    --------
    >>> extents_of("attention_decode").filled(
    ...     {"batch": 8, "context": 1024, "heads": 32, "head_dim": 128}, "bf16")["kv_element_bytes"]
    2.0
    """
    if op in _FORMS:
        return _FORMS[op]
    if op in ("layer_norm", "rms_norm", "softmax", "embedding", "rope"):
        return _WIDE
    operands = _always(_OPERANDS.get(op, 1.0))
    return Extents(needed=_WIDE.needed, usual={"inputs": operands})


#: Every operator by its extents.
EXTENTS: Mapping[str, Extents] = MappingProxyType({op: extents_of(op) for op in FORMULAS})
