"""Imported once by the server process that measurement processes are forked from.

The libraries are loaded but nothing has run yet: no thread pool exists, no memory is cached.
What a measurement needs later on is loaded too, so that all measurements of one run take the
same code even where its files are changed meanwhile.
"""

from __future__ import annotations

import contextlib
import importlib
import warnings

from perfmodel.errors import MissingExtraError

_MODULES = (
    "torch._dynamo",
    "torch.profiler",
    "perfmodel.capture.torch",
    "perfmodel.profilers.worker",
    "perfmodel.zoo.transformers.huggingface",
    "perfmodel.zoo.references.reference",
    "perfmodel.zoo.resolve",
    "perfmodel.zoo.timm",
    "onnx",
    "onnxruntime",
    "perfmodel.profilers.steps.exported",
    "perfmodel.profilers.steps.onnxruntime",
    "perfmodel.profilers.steps.openvino",
    "perfmodel.profilers.steps.pytorch",
    "perfmodel.zoo.moved",
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    # A library that is absent fails the jobs that need it, each with its reason.
    with contextlib.suppress(ImportError, MissingExtraError):
        from perfmodel.zoo.libraries import import_timm, import_transformers

        import_timm()
        import_transformers()
    for _name in _MODULES:
        with contextlib.suppress(ImportError, MissingExtraError):
            importlib.import_module(_name)
