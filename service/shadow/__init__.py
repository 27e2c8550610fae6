"""Versions that answer what was asked beside the one that serves."""
