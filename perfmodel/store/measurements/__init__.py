"""Measurements on disk: a journal of each device, compacted into Parquet files."""
