"""A model is walked through as PyTorch does it; a capture leaves nothing to be collected."""

from __future__ import annotations

import gc

import torch
from torch import nn

from perfmodel.capture.recording.meta_copy import Parts
from perfmodel.capture.recording.recorder import Recorder
from perfmodel.capture.torch import capture_module
from perfmodel.types import Mode


def entangled() -> nn.Module:
    """Make a model with a shared layer, a tied weight, an empty block and absent parts."""
    shared = nn.Linear(4, 4)
    model = nn.Sequential(
        nn.Sequential(shared, nn.BatchNorm1d(4)),
        nn.Sequential(),
        nn.ModuleDict({"again": shared, "norm": nn.BatchNorm1d(4, affine=False)}),
        nn.Linear(4, 4, bias=False),
    )
    model[3].weight = shared.weight  # type: ignore[assignment]
    model.register_module("absent", None)
    return model


def test_parts_are_those_of_pytorch_in_its_order() -> None:
    model = entangled()
    parts = Parts.of(model)
    assert [(path, id(module)) for module, path in parts.paths.items()] == [
        (path, id(module)) for path, module in model.named_modules()
    ]
    assert list(map(id, parts.parameters)) == list(map(id, model.parameters()))
    assert list(map(id, parts.buffers)) == list(map(id, model.buffers()))


def test_a_capture_dies_with_its_last_reference() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    gc.collect()
    gc.disable()
    try:
        graph = capture_module(model, (torch.ones(3, 4),), mode=Mode.TRAINING)
        left = [thing for thing in gc.get_objects() if type(thing) is Recorder]
    finally:
        gc.enable()
    assert graph.nodes and not left
