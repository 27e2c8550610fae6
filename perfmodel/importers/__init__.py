"""Readers of public measurement formats; each returns what it understood and what it did not."""
