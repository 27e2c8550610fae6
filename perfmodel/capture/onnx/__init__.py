"""Capture of ONNX files: from bytes to a Graph, without running anything.

The file is read by a bounded reader (``wire``, ``decode``), its dynamic dimensions are bound
(``bind``), its operators are followed by shape (``trace``, ``fold``, ``rules``) and, for a
training step, differentiated (``training``, ``gradients``).
"""

from perfmodel.capture.onnx.builder import onnx_node_name
from perfmodel.capture.onnx.entry import capture_onnx, input_shapes, samples_of
from perfmodel.capture.onnx.reading.limits import OnnxLimits

__all__ = ["OnnxLimits", "capture_onnx", "input_shapes", "onnx_node_name", "samples_of"]
