"""What knows HTTP and nothing of performance: problems, bodies, tags, compression, logs."""
