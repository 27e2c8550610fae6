"""Fits of the law of tuned inference engines."""
