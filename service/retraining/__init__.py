"""Retrainings that wait are done by a process beside the service, unless another host does them."""
