"""Jobs without a graph, known by measured cells."""
