"""Tuned inference engines: what is left of a graph in one, and how long it takes."""
