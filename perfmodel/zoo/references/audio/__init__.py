"""Reference workloads that read or write speech."""
