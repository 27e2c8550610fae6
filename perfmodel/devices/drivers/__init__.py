"""What drivers say about accelerators, and which accelerators of the catalogue they mean."""
