"""Which few measurements of a new device tell most."""
