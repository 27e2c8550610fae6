r"""Fit what preparing a sample takes of a core on loaders that were measured by themselves.

.. math:: \frac{1}{rate} = \frac{d}{\min(\max(w, 1), c)}

with the core-seconds :math:`d` of :class:`~.input_samples.InputConstants`, w workers and c cores:
the law of :mod:`~perfmodel.placement.feeding.input_pipeline` where the store does not limit. Only
samples that were read from memory count, so that it does not. Robust least squares of the logarithm
of rates with a prior on each constant: what no loader tells keeps what is typical.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.errors import TrainingError
from perfmodel.features.arrays import FloatArray
from perfmodel.importers.own_profiles import read_own_profiles
from perfmodel.importers.published import PublishedLoader
from perfmodel.placement.feeding.input_samples import InputConstants, InputKind
from perfmodel.placement.least_squares import dampened, least_squares
from perfmodel.training.placement_fits.fitted_file import document, rounded

#: Medians of 15 runs on one core of an AMD EPYC server with Pillow 13 and PyTorch 2.13: JPEG of
#: 500 x 375 pixels, decode 1.2 ms, with crop to 224 x 224, flip and normalisation 2.4 ms; 1,025
#: tokens 4.5 us; collating a float image of 224 x 224 0.05 ms.
TYPICAL = InputConstants(
    jpeg_decode_s_per_pixel=1.2e-3 / (500 * 375),
    crop_s_per_pixel=1.2e-3 / 224**2,
    collate_s_per_byte=5e-5 / (3 * 224 * 224 * 4),
    tokens_fixed_s=2e-6,
    token_s=2.5e-9,
    record_s=5e-6,
)
#: Width of the priors, in logarithms: servers and libraries differ by so much.
_WIDTH = 1.0
#: Scatter of log rates.
_SCATTER = 0.2
_STEPS = 40
_NAMES = tuple(field.name for field in fields(InputConstants))


def fit(data: Path, profiles: Path | None = None) -> dict[str, Any]:
    """Fit the constants on own loaders; no public table holds any.

    Raises
    ------
    TrainingError
        No folder of own measurements, or none of a loader that reads from memory.
    """
    if profiles is None:
        raise TrainingError(
            "Loaders are in no public table: name the folder of own measurements, --profiles."
        )
    loaders = usable(read_own_profiles(profiles).loaders)
    if not loaders:
        raise TrainingError(
            f"{profiles} holds no loader that reads from memory; measure some: "
            "perfmodel measure loaders."
        )
    constants = rounded(asdict(fit_constants(loaders)))
    return document("feeding", constants, "own profiles", len(loaders))


def usable(loaders: Sequence[PublishedLoader]) -> list[PublishedLoader]:
    """Return the loaders that the store did not limit."""
    return [one for one in loaders if one.locality == "memory"]


def fit_constants(loaders: Sequence[PublishedLoader]) -> InputConstants:
    """Return the constants under which loaders are as fast as they were."""
    typical = np.log([getattr(TYPICAL, name) for name in _NAMES])
    measured = -np.log([one.samples_per_second for one in loaders])

    def residuals(vector: FloatArray) -> FloatArray:
        rates = np.log(seconds_per_sample(loaders, _constants(vector)))
        off = dampened((rates - measured) / _SCATTER, 1.0)
        return np.concatenate([off, (vector - typical) / _WIDTH])

    return _constants(least_squares(residuals, typical, steps=_STEPS))


def seconds_per_sample(loaders: Sequence[PublishedLoader], constants: InputConstants) -> FloatArray:
    """Return the time that each loader takes for a sample, by the law."""
    return np.array(
        [
            constants.cpu_s(
                InputKind(one.input_kind),
                source_pixels=one.source_pixels,
                side_pixels=one.side_pixels,
                sequence_length=one.sequence_length,
                tensor_bytes=one.tensor_bytes,
            )
            / min(max(one.workers, 1), one.cpu_cores)
            for one in loaders
        ]
    )


def _constants(vector: FloatArray) -> InputConstants:
    return InputConstants(**dict(zip(_NAMES, np.exp(vector).tolist(), strict=True)))
