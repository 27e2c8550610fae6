"""Graphs that are registered: as they are listed, and as ONNX files are read."""
