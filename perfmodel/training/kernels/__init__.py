"""Learning the times of single kernels."""
