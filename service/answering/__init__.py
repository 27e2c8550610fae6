"""From the body of a question to its answer."""
