"""Reference workloads that published measurements name."""
