"""What a process that does little but answer does to itself before it loads a model.

Only a command or a service may do so, whose process is its own.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


def prepare_process() -> None:
    """Load what answers need, and have it compute on one thread.

    An answer is made of calls that take microseconds: threads wait for each other longer than they
    work, and take the cores from other answers. What is not installed says so when it is needed.
    """
    with _absent("sklearn"), contextlib.suppress(ImportError):
        import xgboost  # noqa: F401
    with contextlib.suppress(ImportError):
        import numpy  # noqa: F401
        from threadpoolctl import threadpool_limits

        threadpool_limits(limits=1, user_api="blas")


@contextlib.contextmanager
def _absent(library: str) -> Iterator[None]:
    """Let a library appear not to be installed, unless it was imported before.

    XGBoost imports wrappers for scikit-learn, which nobody uses here, and with them the whole of it
    and of scipy's statistics wherever they are installed: a second of one core, as much as all else
    that a service loads.
    """
    if {library, "xgboost"} & set(sys.modules):
        yield
        return
    sys.modules[library] = None  # type: ignore[assignment]  # how an import is made to fail
    try:
        yield
    finally:
        del sys.modules[library]
