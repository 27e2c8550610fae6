"""Memory of one accelerator under a plan."""
