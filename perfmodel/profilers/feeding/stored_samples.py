"""Samples on a store, made here, and what a loader does to one of them.

Each kind is stored and prepared as jobs usually do:

- photos are JPEG files of 500 x 375 pixels (the mean of ImageNet's), decoded, cropped at random,
  resized, flipped and normalised;
- small images and rows of a table lie in one file of fixed-size records;
- tokens lie in one file of 16-bit numbers, from which each sample is a window.

Photos are smooth colours with noise: their files have the size of real ones, and a decoder's time
goes with pixels and bytes. Left out: tar shards, databases and remote stores with protocols of
their own; give a folder on such a mount instead.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from perfmodel.errors import InvalidInputError, MissingExtraError

#: Height and width of a photo.
PHOTO_SHAPE = (375, 500)
_QUALITY = 92
#: Standard deviation of the noise, of 255: what makes files as large as ImageNet's.
_NOISE = 12.0
_VOCABULARY = 50_000


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleForm:
    """What the samples of a data set are.

    Parameters
    ----------
    kind : str
        ``"image_jpeg"``, ``"image_raw"``, ``"tokens"`` or ``"tabular"``.
    count : int
        Distinct samples, >= 1; a loader goes over them again and again.
    side_pixels : int
        Of an image as it enters the model.
    sequence_length : int
        Tokens of a text sample.
    columns : int
        Numbers of a row of a table.
    """

    kind: str
    count: int = 256
    side_pixels: int = 224
    sequence_length: int = 1024
    columns: int = 128

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidInputError(
                f"Samples are one of {', '.join(KINDS)}; got {self.kind!r}.", allowed=KINDS
            )
        for name in ("count", "side_pixels", "sequence_length", "columns"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name} must be 1 or more; got {getattr(self, name)}.")

    @property
    def record_bytes(self) -> int:
        """Of a sample that lies in one file with others."""
        return {"image_raw": 3 * self.side_pixels**2, "tokens": 2 * self.sequence_length}.get(
            self.kind, 4 * self.columns
        )

    @property
    def tensor_bytes(self) -> float:
        """Of a sample as it enters the model."""
        images = 3 * 4 * self.side_pixels**2
        sizes = {"tokens": 8 * self.sequence_length, "tabular": 4 * self.columns}
        return float(sizes.get(self.kind, images))


#: Kinds of sample that can be made here.
KINDS = ("image_jpeg", "image_raw", "tokens", "tabular")


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSamples:
    """A data set in a folder.

    Parameters
    ----------
    stored_bytes : float
        Mean of a sample.
    files : float
        Opened for a sample; 0 where many lie in one file that stays open.
    source_pixels : float
        Of a stored photo; 0 for other kinds.
    """

    form: SampleForm
    folder: Path
    stored_bytes: float
    files: float
    source_pixels: float


def write_samples(form: SampleForm, folder: Path) -> StoredSamples:
    """Make the samples of a form in an empty folder, safely on disk when this returns.

    Raises
    ------
    MissingExtraError
        Photos, without a library that writes JPEG.
    """
    random = np.random.default_rng(0)
    if form.kind != "image_jpeg":
        content = random.integers(0, 256, size=form.count * form.record_bytes, dtype=np.uint8)
        if form.kind == "tokens":
            tokens = random.integers(0, _VOCABULARY, size=form.count * form.sequence_length)
            content = tokens.astype("<u2").view(np.uint8)
        elif form.kind == "tabular":
            rows = random.standard_normal(form.count * form.columns)
            content = rows.astype("<f4").view(np.uint8)
        _write(folder / "samples.bin", content.tobytes())
        return StoredSamples(
            form=form,
            folder=folder,
            stored_bytes=float(form.record_bytes),
            files=0.0,
            source_pixels=0.0,
        )
    sizes = [_write(folder / f"{i:06d}.jpg", _photo(random)) for i in range(form.count)]
    return StoredSamples(
        form=form,
        folder=folder,
        stored_bytes=float(np.mean(sizes)),
        files=1.0,
        source_pixels=float(PHOTO_SHAPE[0] * PHOTO_SHAPE[1]),
    )


def _write(path: Path, content: bytes) -> int:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return len(content)


def _photo(random: np.random.Generator) -> bytes:
    image = _pillow()
    height, width = PHOTO_SHAPE
    coarse = random.integers(0, 256, size=(6, 8, 3), dtype=np.uint8)
    smooth = np.asarray(image.fromarray(coarse).resize((width, height)), dtype=np.float64)
    noisy = smooth + random.normal(0.0, _NOISE, size=smooth.shape)
    out = io.BytesIO()
    image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("Making and decoding photos (Pillow)", extra="train") from error
    return Image


class Samples:
    """The samples as ``torch.utils.data.DataLoader`` asks for them, prepared for a model.

    Parameters
    ----------
    length : int
        Samples of an epoch; beyond the distinct ones they repeat.
    uncached : bool
        Have the system forget a file (or a record) before it is read, so that it is read from the
        store and not from memory.
    """

    def __init__(self, stored: StoredSamples, *, length: int, uncached: bool = False) -> None:
        self._stored = stored
        self._length = length
        self._uncached = uncached
        self._prepare = _PREPARATIONS[stored.form.kind]

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, position: int) -> Any:
        if not 0 <= position < self._length:
            raise IndexError(position)
        return self._prepare(self._read(position % self._stored.form.count), self._stored.form)

    def _read(self, position: int) -> bytes:
        stored = self._stored
        if stored.form.kind == "image_jpeg":
            return self._part(stored.folder / f"{position:06d}.jpg", 0, None)
        size = stored.form.record_bytes
        return self._part(stored.folder / "samples.bin", position * size, size)

    def _part(self, path: Path, offset: int, size: int | None) -> bytes:
        with path.open("rb") as file:
            if self._uncached:
                os.posix_fadvise(file.fileno(), offset, size or 0, os.POSIX_FADV_DONTNEED)
            file.seek(offset)
            return file.read() if size is None else file.read(size)


def _prepared_photo(content: bytes, form: SampleForm) -> Any:
    image = _pillow()
    with image.open(io.BytesIO(content)) as opened:
        photo = opened.convert("RGB")
    width, height = photo.size
    # A crop of 8 to 100 % of the area, as training on ImageNet takes them.
    share = np.sqrt(np.random.uniform(0.08, 1.0))
    wide, high = share * width, share * height
    left, top = np.random.uniform(0, width - wide), np.random.uniform(0, height - high)
    side = form.side_pixels
    box = (left, top, left + wide, top + high)
    cropped = photo.resize((side, side), resample=image.Resampling.BILINEAR, box=box)
    return _normalised(np.asarray(cropped))


def _prepared_pixels(content: bytes, form: SampleForm) -> Any:
    side = form.side_pixels
    return _normalised(np.frombuffer(content, dtype=np.uint8).reshape(side, side, 3))


def _normalised(pixels: Any) -> Any:
    """Return an image as training wants it: flipped at random, scaled, channels first."""
    import torch

    if np.random.random() < 0.5:
        pixels = pixels[:, ::-1]
    tensor = torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))
    return tensor.float().div_(255.0).sub_(0.45).div_(0.225)


def _prepared_tokens(content: bytes, form: SampleForm) -> Any:
    import torch

    return torch.from_numpy(np.frombuffer(content, dtype="<u2").astype(np.int64))


def _prepared_row(content: bytes, form: SampleForm) -> Any:
    import torch

    return torch.from_numpy(np.frombuffer(content, dtype="<f4").astype(np.float32))


_PREPARATIONS: Mapping[str, Callable[[bytes, SampleForm], Any]] = MappingProxyType(
    {
        "image_jpeg": _prepared_photo,
        "image_raw": _prepared_pixels,
        "tokens": _prepared_tokens,
        "tabular": _prepared_row,
    }
)
