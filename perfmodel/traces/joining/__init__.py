"""Joins within a trace: calls to their callers, kernels to calls, backward to forward."""
