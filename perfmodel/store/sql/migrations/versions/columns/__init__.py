"""Migrations that change tables: columns, keys, indexes."""
