"""Jobs with their graphs: captured, registered, kept."""
