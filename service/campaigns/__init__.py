"""Campaigns as they are watched over HTTP."""
