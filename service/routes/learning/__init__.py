"""Paths of what is learned: versions of models, campaigns."""
