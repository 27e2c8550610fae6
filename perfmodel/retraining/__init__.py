"""Retraining: what was measured becomes a new version of a model, judged before it serves."""
