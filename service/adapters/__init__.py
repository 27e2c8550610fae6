"""Dialects of schedulers: each turns their questions into ours and our answers into theirs."""
