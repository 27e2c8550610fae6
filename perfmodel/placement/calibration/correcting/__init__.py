"""Apply what observed steps say: to many cells in columns, to one on plain numbers."""
