"""Jobs that are known by a name and observed steps alone."""
