"""Judgement of the placement floor on published measurements of several accelerators."""
