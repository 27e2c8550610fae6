"""What lies in the memory of the host: copies to and from it, and updates there."""
