"""Two jobs on one device at once."""
