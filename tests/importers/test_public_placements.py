from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.importers.published import Imported
from perfmodel.importers.registry import FORMATS

DATA = os.environ.get("PERFMODEL_DATA")
pytestmark = pytest.mark.skipif(not DATA, reason="PERFMODEL_DATA names no public measurements")
NAMES = ("llm-foundry", "vtrain", "sia", "gavel")


@pytest.fixture(scope="module", params=NAMES)
def imported(request: pytest.FixtureRequest) -> Imported:
    form = FORMATS[request.param]
    return form.read(form.usual_path(Path(DATA or "")))


def test_every_row_is_understood_or_for_a_known_reason_not(imported: Imported) -> None:
    assert imported.placements
    known = ("did not run: the rate is 0", "one accelerator cannot be spread")
    assert all(row.reason.startswith(known) for row in imported.rejected)


def test_every_accelerator_is_in_the_catalogue(imported: Imported) -> None:
    catalog = Catalog.default()
    nodes = {node.accelerator for r in imported.placements for node in r.placement.nodes}
    assert nodes == {catalog.canonical_name(name) for name in nodes}


def test_times_are_those_of_training_steps(imported: Imported) -> None:
    times = [record.step_time_s for record in imported.placements]
    assert min(times) > 1e-4 and max(times) < 1e3
