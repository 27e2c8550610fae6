"""The page: its files, and how they are sent."""
