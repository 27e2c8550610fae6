"""Import what users of Stable Diffusion 1.5 measured on their cards, a row a card.

``sd15_by_device.csv`` sums up a public log of a web interface: steps of sampling a second, times
images of a batch, by card, year, major version of PyTorch and batch, with median, 90th percentile
and largest. Guidance asks the denoising network twice an image, so an image is two samples of
``zoo/sd15-unet``.

Machines of users differ: some are limited by their host, some undervolted or overclocked. The 90th
percentile stands for a card, and a row is taken where several reports of it agree: it is read as a
step where the largest lies at most half above it. Left out: cards that pass for others
(``[ZLUDA]``), names of several cards, and what single users reported.
"""

from __future__ import annotations

from pathlib import Path

from perfmodel.devices.catalog import Catalog
from perfmodel.graph.job import Job
from perfmodel.importers.public_tables import PublicTable, Row, count, positive, text
from perfmodel.importers.published import Imported, Origin, PublishedStep
from perfmodel.importers.repeats import one_record_each
from perfmodel.types import AttentionKernel, Mode, Precision

TABLE = PublicTable(
    files=("sd15_by_device.csv",),
    source="sd-webui benchmark log",
    licence="not stated",
    columns=("device_raw", "torch_major", "batch", "n", "p50", "p90", "max"),
)

_FEWEST_REPORTS = 2
_MOST_APART = 1.5
#: With and without the words.
_SAMPLES_AN_IMAGE = 2
#: A release that stands for those of a major version.
_RELEASES = {"1": "1.13.1", "2": "2.0.1"}
#: What the fastest reports of a card run, xformers where the release has nothing of its own.
_FASTEST = {"attention": AttentionKernel.FUSED.value}


def read_stable_diffusion(path: Path) -> Imported:
    """Read the table, or that of a folder; one step a row."""
    steps, rejected = TABLE.records(path, _step)
    return Imported(steps=one_record_each(steps), rejected=rejected)


def _step(row: Row, origin: Origin) -> PublishedStep:
    reports, rate = count(row, "n"), positive(row, "p90")
    if reports < _FEWEST_REPORTS:
        raise ValueError("a single report says more of a machine than of a card")
    largest = positive(row, "max")
    if largest > _MOST_APART * rate:
        raise ValueError(f"its reports disagree: 90 % reach {rate:g}, one {largest:g}")
    job = Job(
        model="zoo/sd15-unet",
        mode=Mode.INFERENCE,
        batch_size=_SAMPLES_AN_IMAGE * count(row, "batch"),
        precision=Precision.FP16,
        software={"torch": _RELEASES[text(row, "torch_major")], **_FASTEST},
    )
    return PublishedStep(
        job=job,
        accelerator=Catalog.default().canonical_name(text(row, "device_raw")),
        samples_per_second=_SAMPLES_AN_IMAGE * rate,
        origin=origin,
        repeats=reports,
        spread=max(0.0, rate / positive(row, "p50") - 1.0),
    )
