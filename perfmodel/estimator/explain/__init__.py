"""Where the time of an answer goes, and why."""
