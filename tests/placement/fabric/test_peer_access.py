from __future__ import annotations

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.placement.fabric.host_link import has_peer_access


@pytest.mark.parametrize("name", ["RTX-2080Ti", "RTX-3070", "RTX-3090", "RTX-4090", "RTX-5090"])
def test_geforce_cards_since_turing_have_none(name: str) -> None:
    assert not has_peer_access(Catalog.default().get(name))


@pytest.mark.parametrize(
    "name",
    ["GTX-1080Ti", "Quadro-RTX-8000", "RTX-A4000", "RTX-4000-Ada", "RTX-6000-Ada", "T4",
     "A100-PCIe-40GB", "RTX-PRO-6000-Server"],
)  # fmt: skip
def test_professional_and_data_center_cards_have_it(name: str) -> None:
    assert has_peer_access(Catalog.default().get(name))
