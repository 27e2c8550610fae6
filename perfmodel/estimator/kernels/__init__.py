"""The time of single kernels and collectives by their shape."""
