"""Read requests as decoded from JSON: the same schema for the command line, Python and HTTP."""

from perfmodel.requests.jobs import CHECKPOINTING, OPTIMIZERS, job_to_dict, parse_job
from perfmodel.requests.queries import Query, parse_observations, parse_query, parse_request
from perfmodel.requests.values import MAX_COUNT, MAX_DEPTH

__all__ = [
    "CHECKPOINTING",
    "MAX_COUNT",
    "MAX_DEPTH",
    "OPTIMIZERS",
    "Query",
    "job_to_dict",
    "parse_job",
    "parse_observations",
    "parse_query",
    "parse_request",
]
