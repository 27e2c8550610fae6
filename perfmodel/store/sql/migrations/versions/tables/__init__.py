"""Migrations that add tables."""
