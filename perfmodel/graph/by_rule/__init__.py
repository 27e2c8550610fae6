"""Graphs whose extents are rules of the batch size and the sequence length."""
