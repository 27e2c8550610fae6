"""Tables of kernels and collectives."""
