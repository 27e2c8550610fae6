"""Predictors for devices that were profiled, and their mix."""
