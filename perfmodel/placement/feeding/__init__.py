"""What a step is fed with: data, and batches that may change."""
