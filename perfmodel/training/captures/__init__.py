"""What is kept of captured jobs, and the processes that capture them."""
