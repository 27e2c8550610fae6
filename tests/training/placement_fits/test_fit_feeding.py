from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up_process_records import loader

from perfmodel.errors import TrainingError
from perfmodel.importers.own_profiles import read_own_profiles
from perfmodel.importers.published import PublishedLoader
from perfmodel.placement.feeding.input_samples import InputConstants
from perfmodel.store.profiles.process_store import ProcessStore
from perfmodel.training.placement_fits.fit_feeding import (
    TYPICAL,
    fit,
    fit_constants,
    seconds_per_sample,
    usable,
)

#: A machine that decodes half as fast and reads tokens twice as fast as the prior says.
TRUE = replace(
    TYPICAL,
    jpeg_decode_s_per_pixel=2 * TYPICAL.jpeg_decode_s_per_pixel,
    crop_s_per_pixel=2 * TYPICAL.crop_s_per_pixel,
    token_s=TYPICAL.token_s / 2,
    tokens_fixed_s=TYPICAL.tokens_fixed_s / 2,
)


def _store(folder: Path) -> Path:
    store = ProcessStore(folder)
    for workers in (0, 1, 2, 4):
        store.append(loader(workers=workers))
        store.append(
            loader(
                workers=workers, input_kind="tokens", sequence_length=1024, side_pixels=0,
                source_pixels=0.0, tensor_bytes=8192.0,
            )
        )  # fmt: skip
    store.append(loader(workers=3, locality="nfs"))
    return folder


def _loaders(folder: Path) -> list[PublishedLoader]:
    loaders = usable(read_own_profiles(_store(folder)).loaders)
    rates = 1 / seconds_per_sample(loaders, TRUE)
    return [
        replace(one, samples_per_second=float(rate))
        for one, rate in zip(loaders, rates, strict=True)
    ]


def test_workers_beyond_the_cores_bring_nothing(tmp_path: Path) -> None:
    loaders = _loaders(tmp_path)
    assert len(loaders) == 8
    photos = {one.workers: one for one in loaders if one.input_kind == "image_jpeg"}
    # 2 x 1.2 ms to decode, 2 x 1.2 ms to crop, 0.05 ms to collate.
    assert 1 / photos[0].samples_per_second == pytest.approx(4.85e-3)
    assert 1 / photos[1].samples_per_second == pytest.approx(4.85e-3)
    assert 1 / photos[2].samples_per_second == pytest.approx(4.85e-3 / 2)
    assert 1 / photos[4].samples_per_second == pytest.approx(4.85e-3 / 2)


def test_the_fit_finds_what_loaders_take(tmp_path: Path) -> None:
    loaders = _loaders(tmp_path)
    found = fit_constants(loaders)
    off = np.log(seconds_per_sample(loaders, found) / seconds_per_sample(loaders, TRUE))
    assert np.abs(off).max() < 0.05
    assert found.record_s == pytest.approx(TYPICAL.record_s), "no loader told"


def test_the_document_is_what_answers_read(tmp_path: Path) -> None:
    document = fit(tmp_path, _store(tmp_path))
    assert document["rows"] == 8
    assert InputConstants(**document["constants"]).jpeg_decode_s_per_pixel > 0


def test_without_loaders_there_is_nothing_to_fit(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="--profiles"):
        fit(tmp_path)
    ProcessStore(tmp_path).append(loader(locality="nfs"))
    with pytest.raises(TrainingError, match="perfmodel measure loaders"):
        fit(tmp_path, tmp_path)
