"""Dynamic dimensions get the extents that the caller names."""

from __future__ import annotations

import pytest
from onnx import helper
from onnx_files import onnx_file, tensor_info

from perfmodel.capture.onnx import capture_onnx
from perfmodel.errors import UnsupportedOnnxError


def relu(*shape):
    node = helper.make_node("Relu", ["x"], ["y"])
    return onnx_file(
        [node], [tensor_info("x", shape)], [tensor_info("y", None)]
    ).SerializeToString()


def test_symbols_are_bound_by_name():
    graph = capture_onnx(relu("batch", "seq", 4), dimensions={"batch": 8, "seq": 128})
    assert graph.tensors[0].shape == (8, 128, 4)


def test_batch_size_binds_the_first_dimension():
    assert capture_onnx(relu("n", 4), batch_size=8).tensors[0].shape == (8, 4)
    assert capture_onnx(relu(None, 4), batch_size=8).tensors[0].shape == (8, 4)


def test_dimensions_win_over_batch_size():
    graph = capture_onnx(relu("n", 4), batch_size=8, dimensions={"n": 3})
    assert graph.tensors[0].shape == (3, 4)


def test_unbound_dimensions_are_named_with_the_cure():
    with pytest.raises(UnsupportedOnnxError) as caught:
        capture_onnx(relu("batch", "seq", None))
    assert "leaves 'batch', 'seq', 'x[2]' open" in caught.value.message
    assert "dimensions={'batch': 8, 'seq': 8, 'x[2]': 8}" in caught.value.message
    assert caught.value.allowed == ("batch", "seq", "x[2]")


def test_unknown_names_are_refused():
    with pytest.raises(UnsupportedOnnxError, match="has no dimension 'bacth'.*'batch'"):
        capture_onnx(relu("batch", 4), dimensions={"bacth": 8})


@pytest.mark.parametrize("extent", [0, -1, 2.5, True, "8"])
def test_extents_are_positive_integers(extent):
    with pytest.raises(UnsupportedOnnxError, match="must be an integer >= 1"):
        capture_onnx(relu("batch", 4), dimensions={"batch": extent})


@pytest.mark.parametrize("batch_size", [0, -3])
def test_batch_sizes_are_positive(batch_size):
    with pytest.raises(UnsupportedOnnxError, match="batch size 'n' is bound to"):
        capture_onnx(relu("n", 4), batch_size=batch_size)


def test_a_fixed_batch_is_not_overridden():
    assert capture_onnx(relu(2, 4), batch_size=2).tensors[0].shape == (2, 4)
    with pytest.raises(UnsupportedOnnxError, match="fixed at batch size 2, 8 was asked for"):
        capture_onnx(relu(2, 4), batch_size=8)


def test_negative_extents_are_open_dimensions():
    with pytest.raises(UnsupportedOnnxError, match=r"leaves 'x\[0\]' open"):
        capture_onnx(relu(-1, 4))
    assert capture_onnx(relu(-1, 4), dimensions={"x[0]": 3}).tensors[0].shape == (3, 4)


def test_work_grows_with_the_batch_and_nothing_else_does():
    small, large = (capture_onnx(relu("n", 4), batch_size=n) for n in (1, 10))
    assert large.tensors[0].element_count == 10 * small.tensors[0].element_count
    assert len(small.nodes) == len(large.nodes)
    assert small.content_hash != large.content_hash
