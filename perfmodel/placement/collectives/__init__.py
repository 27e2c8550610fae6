"""Time of collectives over groups of accelerators."""
