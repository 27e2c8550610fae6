"""What runs a step: PyTorch, compiled or not, ONNX Runtime, OpenVINO."""
