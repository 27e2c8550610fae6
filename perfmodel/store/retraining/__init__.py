"""Retrainings in the database: what shall be learned anew, how far it is, and what came of it."""

from perfmodel.store.retraining.log_store import RetrainingLogStore
from perfmodel.store.retraining.observed_data import ObservedDataStore
from perfmodel.store.retraining.retraining_store import RetrainingStore

__all__ = ["ObservedDataStore", "RetrainingLogStore", "RetrainingStore"]
