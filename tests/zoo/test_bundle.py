from __future__ import annotations

import pytest
import torch

from perfmodel.errors import InvalidInputError
from perfmodel.zoo.bundle import building_on
from perfmodel.zoo.meta_device import MetaDevice, fills_left_out


def test_meta_device_holds_shapes_and_skips_initial_weights() -> None:
    with MetaDevice():
        layer = torch.nn.Conv2d(3, 8, 5)
        torch.nn.init.trunc_normal_(layer.weight, std=0.02)
        table = torch.zeros(4, 4).fill_(1.0)
    assert layer.weight.is_meta and layer.weight.shape == (8, 3, 5, 5)
    assert isinstance(layer.weight, torch.nn.Parameter) and layer.weight.requires_grad
    assert table.is_meta and table.shape == (4, 4)


def test_meta_device_leaves_real_tensors_alone() -> None:
    real = torch.zeros(3)
    with MetaDevice():
        real.fill_(2.0)
        torch.nn.init.constant_(real[:1], 5.0)
    assert real.tolist() == [5.0, 2.0, 2.0]


def test_fills_of_meta_tensors_are_left_out_in_a_whole_process() -> None:
    usual = three_layers()
    before = torch.nn.init.ones_, torch.nn.Linear.reset_parameters
    real = torch.zeros(3)
    with fills_left_out():
        with MetaDevice():
            layers = three_layers()
            filled = torch.nn.init.trunc_normal_(tensor=layers[0].get_parameter("weight"), std=0.02)
            torch.nn.init.constant_(real[:1], 5.0)
        assert filled is layers[0].get_parameter("weight")
        torch.manual_seed(3)
        weights = torch.nn.Linear(4, 2).weight
        torch.nn.init.ones_(real[1:2])
    assert before == (torch.nn.init.ones_, torch.nn.Linear.reset_parameters)
    assert real.tolist() == [5.0, 1.0, 0.0]
    torch.manual_seed(3)
    assert torch.equal(weights, torch.nn.Linear(4, 2).weight)
    for layer, other in zip(layers, usual, strict=True):
        held = {name: tensor.shape for name, tensor in layer.state_dict().items()}
        assert held == {name: tensor.shape for name, tensor in other.state_dict().items()}
        assert all(tensor.is_meta for tensor in layer.state_dict().values())


def three_layers() -> list[torch.nn.Module]:
    return [torch.nn.Conv2d(3, 8, 5), torch.nn.BatchNorm2d(4, affine=False), torch.nn.LayerNorm(4)]


def test_cpu_numbers_repeat_and_leave_the_global_state_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(2)
    torch.manual_seed(7)
    with building_on("cpu"):
        first = torch.rand(5)
    after = torch.rand(2)
    with building_on("cpu"):
        second = torch.rand(5)
    assert torch.equal(first, second)
    assert torch.equal(after, expected)


def test_other_devices_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="'meta' or 'cpu'"), building_on("cuda"):
        pass
