"""What tells the programs of one model apart, and for which batches the rules of one hold."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import orjson

from perfmodel.graph.by_rule.rules import Point, Rule, terms
from perfmodel.graph.job import Job
from perfmodel.types import Mode


def model_key(job: Job) -> str:
    """Return the name of the model of a job, whatever is done with it."""
    content = {"model": job.model, "kwargs": dict(job.model_kwargs), "config": job.hf_config}
    text = orjson.dumps(content, option=orjson.OPT_SORT_KEYS, default=dict)
    return hashlib.sha256(text).hexdigest()[:16]


def variant_key(job: Job) -> str:
    """Return the name of the program that a job runs, among those of its model.

    Examples
    --------
    >>> variant_key(Job(model="timm/resnet50", mode=Mode.TRAINING))
    'training fp32 channels_first sgd'
    """
    words = [job.mode.value, job.precision.value, job.memory_format.value]
    if job.mode is Mode.TRAINING:
        words += [job.optimizer, *(["checkpointing"] if job.activation_checkpointing else [])]
        words += [str(job.accumulation_steps)] if job.accumulation_steps != 1 else []
    return " ".join(words)


@dataclass(frozen=True, kw_only=True, slots=True)
class Domain:
    """For which batches the rules of a program hold, and what they say of its tokens.

    Parameters
    ----------
    batch, sequence : tuple of int
        Least and most; no sequence for a model that takes none.
    usual_length : int or None
        Sequence length where a job states none.
    tokens : Rule or int or None
        Tokens of a sample.
    """

    batch: tuple[int, int]
    sequence: tuple[int, int] | None
    usual_length: int | None
    tokens: Rule | int | None

    def point(self, batch_size: int, sequence_length: int | None) -> Point | None:
        """Return where the graph of a batch lies; None where the rules do not hold."""
        length = self.usual_length if sequence_length is None else sequence_length
        values = [batch_size] if length is None else [batch_size, length]
        ranges = [self.batch] if self.sequence is None else [self.batch, self.sequence]
        if len(values) != len(ranges):
            return None
        pairs = list(zip(values, ranges, strict=True))
        if any(not least <= value <= most for value, (least, most) in pairs):
            return None
        return tuple(value for value, (least, most) in pairs if least < most)

    def tokens_at(self, point: Point) -> int | None:
        """Return the tokens of a sample at a point."""
        return int(self.tokens.at(terms(point))) if isinstance(self.tokens, Rule) else self.tokens
