"""Reference workloads that read text, with the blocks they share."""
