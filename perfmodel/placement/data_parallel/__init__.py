"""The step of data-parallel replicas."""
