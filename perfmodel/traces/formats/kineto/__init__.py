"""Chrome traces of torch.profiler (Kineto), of NVIDIA and AMD GPUs."""
