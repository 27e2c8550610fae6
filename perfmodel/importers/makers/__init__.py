"""Tables that makers of accelerators publish of their own."""
