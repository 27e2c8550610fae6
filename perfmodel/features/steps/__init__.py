"""What a step of any device is described by: sketches of graphs, tables of steps."""
