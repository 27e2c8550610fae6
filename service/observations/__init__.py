"""Measured steps: read, judged, kept, and held against predictions."""
