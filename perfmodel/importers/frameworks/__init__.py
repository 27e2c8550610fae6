"""Readers of steps that were compared between frameworks and their releases."""
