"""What a process that serves and does nothing else leaves out to be ready sooner."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: Allocations after which the youngest objects are collected, and collections of younger ones after
#: which the older two generations are.
_THRESHOLDS = (50_000, 20, 50)


@contextmanager
def loading() -> Iterator[None]:
    """Load what stays: nothing is collected meanwhile, nor looked at by later collections.

    A full collection walks through everything that was ever loaded and stops all answers for 0.1 s;
    large bodies bring it about every few requests. What is there afterwards stays, and what
    requests make dies with them by its reference counts.
    """
    gc.disable()
    try:
        yield
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_THRESHOLDS)
    finally:
        gc.enable()


def import_xgboost_alone() -> None:
    """Import the boosting library without its wrappers for scikit-learn, which nobody uses here.

    They import the whole of it, and of scipy's statistics, wherever they are installed: a second of
    one core, as much as all of FastAPI, SQLAlchemy and this service.
    """
    if "xgboost" in sys.modules or "sklearn" in sys.modules:
        return
    sys.modules["sklearn"] = None  # type: ignore[assignment]  # how an import is made to fail
    try:
        # Where it is missing, the model that needs it says so.
        with suppress(ImportError):
            import xgboost  # noqa: F401
    finally:
        del sys.modules["sklearn"]
