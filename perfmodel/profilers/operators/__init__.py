"""Operator times of a step, joined to the nodes of its graph."""
