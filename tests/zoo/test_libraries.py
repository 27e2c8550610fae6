from __future__ import annotations

import importlib.util
import os

import pytest
import torch

from perfmodel.errors import MissingExtraError
from perfmodel.zoo.libraries import declare_torchvision_operators, import_timm, import_transformers
from perfmodel.zoo.transformers.huggingface import answer_for_meta_tensors


def test_declaring_twice_changes_nothing() -> None:
    declare_torchvision_operators()
    declare_torchvision_operators()
    if importlib.util.find_spec("torchvision") is not None:
        assert hasattr(torch.ops.torchvision, "nms")


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for load in (import_timm, import_transformers):
        with pytest.raises(MissingExtraError, match=r"perfmodel\[train\]"):
            load()


def test_answers_for_meta_tensors_leave_real_ones_alone() -> None:
    import_transformers()
    answer_for_meta_tensors()
    from transformers import masking_utils

    packed = torch.tensor([[0, 1, 2, 0, 1]])  # two sequences in one row
    assert masking_utils.find_packed_sequence_indices(packed).tolist() == [[0, 0, 0, 1, 1]]
    assert masking_utils.find_packed_sequence_indices(packed.to("meta")) is None
    assert os.environ["HF_HUB_OFFLINE"] == "1"
