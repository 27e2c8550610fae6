"""What is found where a version answers beside the one that serves."""
