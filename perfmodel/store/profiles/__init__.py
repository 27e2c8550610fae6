"""Measurements on disk: a journal of each device, compacted into Parquet files."""

from perfmodel.errors import MissingExtraError

try:
    from perfmodel.store.profiles.profile_store import ProfileStore
except ModuleNotFoundError as error:
    if error.name is None or not error.name.startswith("pyarrow"):
        raise
    raise MissingExtraError("Records of measurements", extra="train") from error

__all__ = ["ProfileStore"]
