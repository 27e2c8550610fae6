"""Which accelerators reach each other's memory over PCIe without a stop in the host's."""

from __future__ import annotations

import re

from perfmodel.devices.spec import AcceleratorSpec

#: GeForce cards since Turing (RTX 20, 30, 40, 50): the driver offers them peer access over their
#: bridge alone, so that over PCIe every byte is written to the host's memory and read again.
#: Professional cards (RTX A4000, RTX 6000 Ada, Quadro) and data-center cards have it.
_GEFORCE = re.compile(r"RTX-[2-5]0\d0(?!\d)(?!-Ada)")


def has_peer_access(spec: AcceleratorSpec) -> bool:
    """Tell whether accelerators of a kind copy to each other directly over PCIe.

    Examples
    --------
    >>> from perfmodel.devices.catalog import Catalog
    >>> cards = map(Catalog.default().get, ("RTX-3090", "RTX-A6000", "GTX-1080Ti"))
    >>> [has_peer_access(card) for card in cards]
    [False, True, True]
    """
    return _GEFORCE.match(spec.name) is None
