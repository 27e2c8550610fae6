"""The search for the settings of learners, inside what they learn from."""
