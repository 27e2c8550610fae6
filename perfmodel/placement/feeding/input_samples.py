"""What one sample of a job costs the host that feeds it, by what it is stored as."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from perfmodel.errors import InvalidInputError
from perfmodel.graph.ir import Graph, Tensor
from perfmodel.types import Role

# Measured on one core of an AMD EPYC server with Pillow 13 and PyTorch 2.13, medians of 15 runs:
# JPEG of 500 x 375 pixels (90 kB), decode 1.2 ms, decode with crop to 224 x 224, flip and
# normalisation 2.4 ms; 1,025 tokens from a memory map 4.5 us; collating a float image of 224 x 224
# 0.05 ms. Libraries without SIMD and heavier augmentation take two to four times as long.
_JPEG_DECODE_S = 1.2e-3
_CROP_S_PER_PIXEL = 1.2e-3 / 224**2
#: Mean stored photo of ImageNet: 138 GB in 1.28 million files.
_JPEG_BYTES = 108e3
_COLLATE_S_PER_BYTE = 5e-5 / (3 * 224 * 224 * 4)
_TOKENS_FIXED_S, _TOKEN_S = 2e-6, 2.5e-9
_TOKEN_BYTES = 2.0
_RECORD_S = 5e-6
#: Side of the largest images that are usually kept unpacked in one file, as CIFAR is.
_LARGEST_RAW = 64


class InputKind(StrEnum):
    """What a stored sample is, and what is done to it."""

    IMAGE_JPEG = "image_jpeg"
    IMAGE_RAW = "image_raw"
    TOKENS = "tokens"
    TABULAR = "tabular"
    SYNTHETIC = "synthetic"


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleCost:
    """What one sample costs the host.

    Parameters
    ----------
    stored_bytes : float
        Read from the store, >= 0.
    cpu_s : float
        Core-seconds to decode, augment and collate, >= 0.
    files : float
        Files opened for it, >= 0; near 0 where many samples lie in one file that is streamed.
    """

    stored_bytes: float
    cpu_s: float
    files: float = 0.0

    def __post_init__(self) -> None:
        if not (self.stored_bytes >= 0 and self.cpu_s >= 0 and self.files >= 0):
            raise InvalidInputError(
                "stored_bytes, cpu_s and files of a sample must be 0 or more; got "
                f"{self.stored_bytes}, {self.cpu_s} and {self.files}."
            )


def sample_cost(
    kind: InputKind,
    *,
    side_pixels: int = 224,
    sequence_length: int = 1,
    tensor_bytes: float = 0.0,
) -> SampleCost:
    """Return what a sample of a kind typically costs the host.

    Parameters
    ----------
    side_pixels : int
        Height and width that images are cropped to.
    sequence_length : int
        Tokens of a text sample.
    tensor_bytes : float
        A raw or tabular sample as it enters the model.

    Examples
    --------
    >>> round(sample_cost(InputKind.IMAGE_JPEG).cpu_s * 1e3, 2)
    2.45
    """
    if kind is InputKind.IMAGE_JPEG:
        collate_s = _COLLATE_S_PER_BYTE * 3 * 4 * side_pixels**2
        cpu_s = _JPEG_DECODE_S + _CROP_S_PER_PIXEL * side_pixels**2 + collate_s
        return SampleCost(stored_bytes=_JPEG_BYTES, cpu_s=cpu_s, files=1.0)
    if kind is InputKind.TOKENS:
        cpu_s = _TOKENS_FIXED_S + _TOKEN_S * sequence_length
        return SampleCost(stored_bytes=_TOKEN_BYTES * sequence_length, cpu_s=cpu_s)
    if kind is InputKind.SYNTHETIC:
        return SampleCost(stored_bytes=0.0, cpu_s=0.0)
    cpu_s = _RECORD_S + _COLLATE_S_PER_BYTE * tensor_bytes
    return SampleCost(stored_bytes=tensor_bytes, cpu_s=cpu_s)


def cost_of_graph(graph: Graph, *, samples: int) -> tuple[InputKind, SampleCost]:
    """Guess from the inputs of a graph what its samples are, and return what they cost.

    Images of three channels and at least 65 pixels a side are taken as JPEG files, smaller ones
    as raw; whole numbers in two dimensions as tokens; everything else as rows of a table.

    Parameters
    ----------
    samples : int
        Samples of the step, >= 1.

    Returns
    -------
    tuple of (InputKind, SampleCost)
        Synthetic for a graph without inputs.
    """
    inputs = [tensor for tensor in graph.tensors if tensor.role is Role.INPUT]
    if not inputs:
        return InputKind.SYNTHETIC, sample_cost(InputKind.SYNTHETIC)
    largest = max(inputs, key=lambda tensor: tensor.size_bytes)
    kind = _kind(largest)
    by_storage = {tensor.storage: tensor.size_bytes for tensor in inputs}
    cost = sample_cost(
        kind,
        side_pixels=max(largest.shape[2:], default=1),
        sequence_length=largest.element_count // samples,
        tensor_bytes=sum(by_storage.values()) / samples,
    )
    return kind, cost


def _kind(tensor: Tensor) -> InputKind:
    if len(tensor.shape) == 4 and tensor.shape[1] == 3:
        return InputKind.IMAGE_JPEG if min(tensor.shape[2:]) > _LARGEST_RAW else InputKind.IMAGE_RAW
    if len(tensor.shape) == 2 and tensor.dtype in ("int32", "int64"):
        return InputKind.TOKENS
    return InputKind.TABULAR
