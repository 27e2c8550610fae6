"""Reference workloads that read images, with the blocks they share."""
