"""Tables of training and inference jobs."""
