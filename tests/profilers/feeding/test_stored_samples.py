from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from perfmodel.errors import InvalidInputError
from perfmodel.profilers.feeding.stored_samples import SampleForm, Samples, write_samples


def test_photos_have_the_size_of_real_ones_and_enter_normalised(tmp_path: Path) -> None:
    stored = write_samples(SampleForm(kind="image_jpeg", count=2, side_pixels=64), tmp_path)
    assert len(list(tmp_path.glob("*.jpg"))) == 2
    assert stored.source_pixels == 500 * 375 and stored.files == 1.0
    # ImageNet's mean is 108 kB, that of its photos of this size 90 kB.
    assert 60e3 < stored.stored_bytes < 130e3
    sample = Samples(stored, length=5)[4]
    assert sample.shape == (3, 64, 64) and sample.dtype == torch.float32
    # (0 - 0.45) / 0.225 and (1 - 0.45) / 0.225.
    assert float(sample.min()) >= -2.001 and float(sample.max()) <= 2.445


@pytest.mark.parametrize(
    ("form", "record_bytes", "shape", "dtype"),
    [
        (SampleForm(kind="image_raw", count=3, side_pixels=8), 192, (3, 8, 8), torch.float32),
        (SampleForm(kind="tokens", count=3, sequence_length=16), 32, (16,), torch.int64),
        (SampleForm(kind="tabular", count=3, columns=5), 20, (5,), torch.float32),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
@pytest.mark.parametrize("uncached", [False, True])
def test_records_of_one_file(
    form: SampleForm,
    record_bytes: int,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    uncached: bool,
    tmp_path: Path,
) -> None:
    stored = write_samples(form, tmp_path)
    assert (tmp_path / "samples.bin").stat().st_size == 3 * record_bytes
    assert stored.stored_bytes == record_bytes and stored.files == 0.0
    samples = Samples(stored, length=7, uncached=uncached)
    assert len(samples) == 7
    assert samples[0].shape == shape and samples[0].dtype == dtype
    if form.kind == "tokens":
        written = np.fromfile(tmp_path / "samples.bin", dtype="<u2")
        # The fourth sample is the first again: there are three.
        assert samples[3].tolist() == written[:16].tolist()
        assert samples[1].tolist() == written[16:32].tolist()
    with pytest.raises(IndexError):
        samples[7]


def test_what_enters_a_model_has_its_bytes() -> None:
    assert SampleForm(kind="image_jpeg").tensor_bytes == 3 * 4 * 224 * 224
    assert SampleForm(kind="tokens", sequence_length=10).tensor_bytes == 80
    assert SampleForm(kind="tabular", columns=10).tensor_bytes == 40


def test_other_samples_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="image_jpeg, image_raw, tokens, tabular"):
        SampleForm(kind="video")
    with pytest.raises(InvalidInputError, match="count must be 1 or more; got 0"):
        SampleForm(kind="tokens", count=0)
