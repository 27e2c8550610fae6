from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from service.serve import import_xgboost_alone, loading

_IMPORTED = """
import sys
from service.serve import import_xgboost_alone
import_xgboost_alone()
assert "sklearn" not in sys.modules
import xgboost
assert xgboost.Booster().get_fscore is not None
"""


def test_the_boosting_library_comes_alone() -> None:
    pytest.importorskip("xgboost")
    # In a process of its own: in this one both may have been imported long ago.
    subprocess.run([sys.executable, "-c", _IMPORTED], check=True, timeout=300)


def test_what_was_imported_before_stays() -> None:
    before = sys.modules.get("sklearn"), sys.modules.get("xgboost")
    if before == (None, None):
        pytest.skip("neither was imported in this process yet")
    import_xgboost_alone()
    assert (sys.modules.get("sklearn"), sys.modules.get("xgboost")) == before


def test_nothing_is_collected_while_it_loads() -> None:
    thresholds = gc.get_threshold()
    try:
        with loading():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
        with pytest.raises(ZeroDivisionError), loading():
            _ = 1 // 0
        assert gc.isenabled()
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
