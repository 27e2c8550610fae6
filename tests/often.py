"""How often a test tries what needs many tries to be believed."""

from __future__ import annotations

import os


def often(usual: int) -> int:
    """Return the number of tries: of every run, unless PERFMODEL_TEST_TIMES states another."""
    return int(os.environ.get("PERFMODEL_TEST_TIMES", usual))
