"""How fast a host feeds a job: samples on a store, and loaders that read them."""
