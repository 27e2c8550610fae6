"""Backups of what a service keeps."""
