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

    # What a measurement needs later on. Loaded now, so that all measurements of a campaign run
    # the same code even where its files are changed meanwhile.
    import perfmodel.capture.torch
    import perfmodel.graph.canonical
    import perfmodel.graph.merkle
    import perfmodel.profilers.iteration
    import perfmodel.profilers.worker
    import perfmodel.zoo.huggingface
    import perfmodel.zoo.reference
    import perfmodel.zoo.resolve
    import perfmodel.zoo.timm

with contextlib.suppress(ImportError):
    import perfmodel.profilers.onnx_export
    import perfmodel.profilers.onnxruntime  # noqa: F401
