"""Captured graphs that come with the package: known models answer without PyTorch."""
