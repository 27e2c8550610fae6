"""Fits of the constants of the placement floor; one file for each part."""
