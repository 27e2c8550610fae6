"""Models of transformers, built from their configs."""
