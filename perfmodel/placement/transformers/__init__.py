"""Dimensions of transformers: as stated, by job and read off a graph."""
