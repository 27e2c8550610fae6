"""What tells the programs of one model apart, and for which batches the rules of one hold."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import orjson

from perfmodel.graph.by_rule.rules import BATCH, SEQUENCE, Degrees, Point
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
    """For which batches the rules of a program hold.

    Parameters
    ----------
    batch, sequence : tuple of int
        Least and most; no sequence for a model that takes none.
    usual_length : int or None
        Sequence length where a job states none.
    tokens : tuple of int or None
        Tokens of a sample: so many, and so many for each position of the sequence.
    """

    batch: tuple[int, int]
    sequence: tuple[int, int] | None
    usual_length: int | None
    tokens: tuple[int, int] | None

    @property
    def degrees(self) -> Degrees:
        """Of what varies."""
        ranges = [(self.batch, BATCH), *([(self.sequence, SEQUENCE)] if self.sequence else [])]
        return tuple(degree for (least, most), degree in ranges if least < most)

    def point(self, batch_size: int, sequence_length: int | None) -> Point | None:
        """Return where the graph of a batch lies; None where the rules do not hold."""
        if self.sequence is None:
            pairs = [(batch_size, self.batch)]
            known = sequence_length is None
        else:
            length = self._length(sequence_length)
            pairs = [(batch_size, self.batch), (length or 0, self.sequence)]
            known = length is not None
        if not known or any(not least <= value <= most for value, (least, most) in pairs):
            return None
        return tuple(value for value, (least, most) in pairs if least < most)

    def batch_of(self, point: Point) -> tuple[int, int | None]:
        """Return the batch size and the sequence length, as stated, of a point."""
        values = list(point)
        size = values.pop(0) if self.batch[0] < self.batch[1] else self.batch[0]
        if self.sequence is None:
            return size, None
        return size, values.pop(0) if values else self.sequence[0]

    def tokens_of(self, sequence_length: int | None) -> int | None:
        """Return the tokens of a sample."""
        if self.tokens is None:
            return None
        base, each = self.tokens
        return base + each * (self._length(sequence_length) or 0)

    def _length(self, stated: int | None) -> int | None:
        return self.usual_length if stated is None else stated
