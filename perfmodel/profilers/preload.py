"""Imported once by the server process that measurement processes are forked from.

The libraries are loaded but nothing has run yet: no thread pool exists, no memory is cached.
"""

from __future__ import annotations

import contextlib
import warnings

from perfmodel.errors import MissingExtraError

with warnings.catch_warnings(), contextlib.suppress(ImportError, MissingExtraError):
    warnings.simplefilter("ignore")

    from perfmodel.zoo.libraries import import_timm, import_transformers

    import_timm()
    import_transformers()

    # What every measurement needs later on.
    import perfmodel.profilers.iteration
    import perfmodel.zoo.resolve  # noqa: F401
