"""Measurements as samples to learn from."""
