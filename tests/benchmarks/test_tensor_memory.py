from __future__ import annotations

import pytest
import torch
from placement_accuracy.tensor_memory import peak_tensor_bytes_of
from torch import nn

from perfmodel.capture.program import make_program
from perfmodel.capture.torch import capture
from perfmodel.placement.memory.memory import peak_tensor_bytes
from perfmodel.types import Mode


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_liveness_counts_what_a_real_step_allocates(optimizer: str) -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 8)]
    module = nn.Sequential(*layers)
    program = make_program(
        module, (torch.randn(512, 256),), mode=Mode.TRAINING, optimizer=optimizer
    )
    measured = peak_tensor_bytes_of(program)
    # Inputs 0.5 MB, parameters 1.1 MB, activations 0.5 to 1 MB each: far above any rounding.
    assert measured > 3e6
    assert peak_tensor_bytes(capture(program)) == pytest.approx(measured, rel=0.02)


def test_inference_keeps_no_activations() -> None:
    module = nn.Sequential(*(nn.Linear(128, 128, bias=False) for _ in range(4)))
    program = make_program(module, (torch.randn(1000, 128),), mode=Mode.INFERENCE)
    # Four weights of 64 KiB, the input and two activations of 512,000 bytes.
    assert peak_tensor_bytes_of(program) == pytest.approx(4 * 128 * 128 * 4 + 3 * 512_000)
