"""Captures in processes of their own: whose turn it is, what each may take and may touch."""
