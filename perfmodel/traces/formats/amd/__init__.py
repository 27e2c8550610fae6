"""What AMD's profilers write: rocprof, rocprofv3, rocprofiler-compute."""
