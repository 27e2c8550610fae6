"""What one sample of a job costs the host that feeds it, by what it is stored as."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from perfmodel.errors import InvalidInputError
from perfmodel.graph.ir import Graph, Tensor
from perfmodel.placement.fitted import fitted
from perfmodel.placement.fitted.forms import read_constants
from perfmodel.types import Role

#: Mean stored photo of ImageNet: 138 GB in 1.28 million files, of 500 x 375 pixels.
_JPEG_BYTES = 108e3
_JPEG_PIXELS = 500 * 375
_TOKEN_BYTES = 2.0
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


@dataclass(frozen=True, kw_only=True, slots=True)
class InputConstants:
    """What preparing samples takes of one core; PyTorch's loader with Pillow.

    Libraries without SIMD and heavier augmentation take two to four times as long.

    Parameters
    ----------
    jpeg_decode_s_per_pixel : float
        Of the stored photo.
    crop_s_per_pixel : float
        To crop, resize, flip and normalise; of the image that enters the model.
    collate_s_per_byte : float
        To put the tensors of samples into a batch.
    tokens_fixed_s, token_s : float
        To read a window of tokens, and each of them.
    record_s : float
        To read a record of a file of many.
    """

    jpeg_decode_s_per_pixel: float
    crop_s_per_pixel: float
    collate_s_per_byte: float
    tokens_fixed_s: float
    token_s: float
    record_s: float

    @classmethod
    def fitted(cls) -> InputConstants:
        """Return the constants that come with the package."""
        return read_constants(cls, fitted("feeding"))

    def cpu_s(
        self,
        kind: InputKind,
        *,
        source_pixels: float = _JPEG_PIXELS,
        side_pixels: int = 0,
        sequence_length: int = 1,
        tensor_bytes: float = 0.0,
    ) -> float:
        """Return the core-seconds of a sample of a kind.

        Examples
        --------
        A decoded pixel of 10 ns, a cropped one of 20 ns and a byte of 0.1 ns, for a photo of 500 x
        375 pixels that enters a model as 224 x 224 in three channels of four bytes:
        1.875 + 1.004 + 0.060 ms.

        >>> rates = InputConstants(jpeg_decode_s_per_pixel=1e-8, crop_s_per_pixel=2e-8,
        ...     collate_s_per_byte=1e-10, tokens_fixed_s=0, token_s=0, record_s=0)
        >>> round(1e3 * rates.cpu_s(InputKind.IMAGE_JPEG, side_pixels=224), 3)
        2.939
        """
        if kind is InputKind.SYNTHETIC:
            return 0.0
        if kind is InputKind.TOKENS:
            return self.tokens_fixed_s + self.token_s * sequence_length
        if kind is InputKind.IMAGE_JPEG:
            tensor = 3 * 4 * side_pixels**2
            decode_s = self.jpeg_decode_s_per_pixel * source_pixels
            crop_s = self.crop_s_per_pixel * side_pixels**2
            return decode_s + crop_s + self.collate_s_per_byte * tensor
        return self.record_s + self.collate_s_per_byte * tensor_bytes


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
    2.73
    """
    cpu_s = InputConstants.fitted().cpu_s(
        kind, side_pixels=side_pixels, sequence_length=sequence_length, tensor_bytes=tensor_bytes
    )
    if kind is InputKind.IMAGE_JPEG:
        return SampleCost(stored_bytes=_JPEG_BYTES, cpu_s=cpu_s, files=1.0)
    stored = {
        InputKind.TOKENS: _TOKEN_BYTES * sequence_length,
        InputKind.SYNTHETIC: 0.0,
    }
    return SampleCost(stored_bytes=stored.get(kind, tensor_bytes), cpu_s=cpu_s)


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


def collate_s(graph: Graph) -> float:
    """Return what bringing the inputs of a graph together takes of one core, seconds.

    However many loaders read and decode samples, one process puts the batch together.
    """
    by_storage = {one.storage: one.size_bytes for one in graph.tensors if one.role is Role.INPUT}
    return InputConstants.fitted().collate_s_per_byte * sum(by_storage.values())


def _kind(tensor: Tensor) -> InputKind:
    if len(tensor.shape) == 4 and tensor.shape[1] == 3:
        return InputKind.IMAGE_JPEG if min(tensor.shape[2:]) > _LARGEST_RAW else InputKind.IMAGE_RAW
    if len(tensor.shape) == 2 and tensor.dtype in ("int32", "int64"):
        return InputKind.TOKENS
    return InputKind.TABULAR
