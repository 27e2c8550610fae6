"""The time of a step on one accelerator."""
