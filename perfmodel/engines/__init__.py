"""Where tasks run that depend on nothing but what they are given: here, or on a cluster."""
