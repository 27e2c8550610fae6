"""Capture: PyTorch programs and ONNX files become graphs, without being run."""
