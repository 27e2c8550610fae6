"""What NVIDIA's profilers write: Nsight Systems and trtexec."""
