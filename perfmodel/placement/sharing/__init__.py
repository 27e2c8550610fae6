"""Parts of accelerators, neighbours on them, and limits of their power."""
