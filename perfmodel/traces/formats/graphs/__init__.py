"""Execution traces: what a program called, with shapes and callers, often without times."""
