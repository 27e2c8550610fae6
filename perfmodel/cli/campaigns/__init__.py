"""``perfmodel campaign``: measure workloads with any number of workers."""
