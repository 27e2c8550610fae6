"""The search over parallel plans."""
