"""What observed steps of a job say about its others."""
