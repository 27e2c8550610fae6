"""Readers of trace formats: one file or room a format, found by content."""
