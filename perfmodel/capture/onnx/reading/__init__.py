"""Read an ONNX file under bounds, without a native parser."""
