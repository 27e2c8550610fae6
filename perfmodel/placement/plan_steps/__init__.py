"""The step of a transformer under a plan: equations and constants; and stages of any graph."""
