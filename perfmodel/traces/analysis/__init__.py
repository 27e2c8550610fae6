"""What a trace says: steps, idle and waiting time, operators with their work and rates."""
