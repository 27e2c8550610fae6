"""Precisions of a training step whose weights are kept in fp32 and computed with in 16 bits.

PyTorch's fully sharded data parallelism keeps the parameters of a rank, its gradients and the state
of its optimizer in the type that the model was built in. ``MixedPrecision`` says in which type
parameters are gathered and computed with, gradients are reduced, and buffers are held. Nothing is
cast operator by operator, as automatic mixed precision does, so that neither copies of weights nor
outputs of norms in fp32 are kept for the backward pass.

Reference: PyTorch, ``torch.distributed.fsdp.MixedPrecision`` and ``MixedPrecisionPolicy``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from perfmodel.errors import InvalidInputError
from perfmodel.json_values import as_known_text, as_object
from perfmodel.types import Precision

#: Bytes of a number of each type that something is kept or sent in.
NUMBER_BYTES: Mapping[Precision, float] = {
    Precision.FP32: 4.0, Precision.BF16: 2.0, Precision.FP16: 2.0,
}  # fmt: skip
#: Their words.
KEPT_TYPES = tuple(one.value for one in NUMBER_BYTES)


@dataclass(frozen=True, kw_only=True, slots=True)
class MixedPrecision:
    """Types of a step that keeps its weights in fp32.

    Parameters
    ----------
    parameter : Precision
        In which parameters are gathered and computed with: fp32, bf16 or fp16.
    reduce : Precision
        In which gradients are reduced over replicas.
    buffer : Precision
        In which buffers are held.
    """

    parameter: Precision
    reduce: Precision
    buffer: Precision

    @classmethod
    def read(cls, value: object, pointer: str) -> Self:
        """Read it as decoded from JSON; what is left out is as ``parameter``.

        Raises
        ------
        InvalidInputError
            Something else than an object of the three words, or no ``parameter``.

        Examples
        --------
        >>> read = MixedPrecision.read({"parameter": "bf16", "reduce": "fp32"}, "")
        >>> read.reduce.value, read.buffer.value, read.kept_over_computed
        ('fp32', 'bf16', 2.0)
        """
        fields = as_object(value, pointer, what="mixed_precision", known=cls.__slots__)
        stated = {name: one for name, one in fields.items() if one is not None}
        if "parameter" not in stated:
            raise InvalidInputError(
                "mixed_precision needs 'parameter': the type that parameters are gathered and "
                f"computed with, one of {', '.join(KEPT_TYPES)}.",
                pointer=f"{pointer}/parameter",
                allowed=KEPT_TYPES,
            )
        words = {name: stated.get(name, stated["parameter"]) for name in cls.__slots__}
        return cls(
            **{
                name: Precision(as_known_text(name, word, KEPT_TYPES, f"{pointer}/{name}"))
                for name, word in words.items()
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; :meth:`read` reads them back."""
        return {name: word.value for name, word in asdict(self).items()}

    @property
    def kept_over_computed(self) -> float:
        """How many times the bytes of the parameters that are computed with are kept."""
        return NUMBER_BYTES[Precision.FP32] / NUMBER_BYTES[self.parameter]

    @property
    def reduced_over_computed(self) -> float:
        """How many times the bytes of the gradients that are computed are reduced."""
        return NUMBER_BYTES[self.reduce] / NUMBER_BYTES[self.parameter]

    @property
    def buffers_over_computed(self) -> float:
        """How many times the bytes of buffers as they are computed with are held."""
        return NUMBER_BYTES[self.buffer] / NUMBER_BYTES[self.parameter]
