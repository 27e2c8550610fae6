"""Plans of transformers: what a job does under them, and which one is best."""
