"""Traces that profilers write: one noun for their many formats, joins and explanations."""
