"""Open models by the names of their hubs, as configurations of the transformers library."""
