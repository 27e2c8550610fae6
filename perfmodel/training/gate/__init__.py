"""Whether a candidate may take the place of the version that serves, from evidence alone."""
