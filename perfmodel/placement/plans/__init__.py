"""Parallel plans of transformers, and stages of any graph."""
