"""Cells, their steps, and the tables, curves and rankings that are read off them."""
