"""Kineto: written next."""
