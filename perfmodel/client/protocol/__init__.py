"""How calls travel: as requests, over a wire, back as answers; again where that is worth it."""
