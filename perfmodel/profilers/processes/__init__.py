"""Several processes that measure together: started, bound to cores, and ended whatever happens."""
