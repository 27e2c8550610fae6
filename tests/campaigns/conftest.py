from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from campaign_world import CampaignWorld
from migrated import migrated_sqlite


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CampaignWorld]:
    made = CampaignWorld(url=migrated_sqlite(tmp_path), folder=tmp_path)
    yield made
    made.close()
