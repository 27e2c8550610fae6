"""Versions of the model: which one serves, which are pinned, and how a new one takes over."""
