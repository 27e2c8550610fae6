"""Placements looked up: hosts and links as they are, and the groups that communicate."""
