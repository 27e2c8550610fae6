"""Published measurements of placements as rows to fit on."""
