"""Measurements and jobs as JSON: between processes, and in the journal."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from perfmodel.errors import InvalidInputError
from perfmodel.records import (
    STEP_WORDS,
    Measurement,
    OperatorRecord,
    Provenance,
    StepRecord,
    as_plain,
)
from perfmodel.types import Phase


def measurement_to_json(measurement: Measurement) -> bytes:
    """Return a measurement as JSON, keys sorted."""
    operators = [[r.node, r.op, str(r.phase), r.time_s] for r in measurement.operators]
    document = {
        "step": as_plain(measurement.step),
        "operators": operators,
        "joined_share": measurement.joined_share,
        "unjoined": dict(measurement.unjoined),
    }
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def measurement_from_json(text: bytes | str) -> Measurement:
    """Return the measurement that :func:`measurement_to_json` wrote.

    Raises
    ------
    InvalidInputError
        JSON that is no measurement.
    """
    try:
        document = orjson.loads(text)
        step = _step(document["step"])
        return Measurement(
            step=step,
            operators=tuple(
                OperatorRecord(
                    workload_hash=step.workload_hash,
                    node=node,
                    op=op,
                    phase=Phase(phase),
                    time_s=time_s,
                )
                for node, op, phase, time_s in document["operators"]
            ),
            joined_share=document["joined_share"],
            unjoined=document["unjoined"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"Not a measurement: {error!r}.") from error


def workload_key(
    job: Mapping[str, Any], *, accelerator: str, threads: int | None, execution: str = ""
) -> str:
    """Return the key under which a job on an accelerator is measured once.

    Unlike the workload's hash it needs no graph, so that what is finished is known before anything
    is captured.

    Parameters
    ----------
    job : mapping
        As from :func:`~perfmodel.graph.job.stated_fields`.
    execution : str
        As in :class:`~perfmodel.records.StepRecord`.

    Returns
    -------
    str
        32 hexadecimal digits.
    """
    document = {"job": dict(job), "accelerator": accelerator, "threads": threads}
    if execution:
        document["execution"] = execution
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def key_of(step: StepRecord) -> str:
    """Return the :func:`workload_key` of what a record measured."""
    return workload_key(
        step.job,
        accelerator=step.accelerator,
        threads=step.provenance.threads,
        execution=step.execution,
    )


def _step(plain: Mapping[str, Any]) -> StepRecord:
    values = dict(plain)
    for name, word in STEP_WORDS.items():
        values[name] = word(values[name])
    values["samples_s"] = tuple(values["samples_s"])
    values["throttle_reasons"] = tuple(values.get("throttle_reasons", ()))
    values["provenance"] = Provenance(**values["provenance"])
    return StepRecord(**values)
