"""What a placement does to the time on one accelerator."""
