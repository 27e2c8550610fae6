"""Measurements on disk: a journal of each device, compacted into Parquet files."""

from perfmodel.store.profiles.profile_store import ProfileStore

__all__ = ["ProfileStore"]
