"""What is counted, and the watch over every request."""
