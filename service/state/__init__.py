"""What is stored and remembered: jobs, observations, prices, and what of it takes no time."""
