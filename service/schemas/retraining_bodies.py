"""The bodies of answers about retrainings."""

from __future__ import annotations

from perfmodel.client import records
from service.schemas.from_dataclass import EXACT, model_of, page_of

RetrainingEntry = model_of(records.Retraining, "RetrainingEntry", config=EXACT)
RetrainingEntered = model_of(records.EnteredRetraining, "RetrainingEntered", config=EXACT)
RetrainingsAnswer = page_of(RetrainingEntry, "RetrainingsAnswer", "retrainings")
RetrainingLineEntry = model_of(records.RetrainingLine, "RetrainingLineEntry", config=EXACT)
RetrainingLogAnswer = model_of(records.RetrainingLog, "RetrainingLogAnswer", config=EXACT)
