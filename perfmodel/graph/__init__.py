"""Graphs of one step: representation, canonical form, costs, workloads and jobs."""
