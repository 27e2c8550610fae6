"""Settings that a captured graph notes in its source: with which the model was captured."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

#: Fields of a job that are noted, words and numbers.
WORDS = (
    "mode", "precision", "optimizer", "memory_format", "activation_checkpointing", "compiler",
)  # fmt: skip
NUMBERS = ("batch_size", "accumulation_steps", "sequence_length")
#: A graph is of one micro-batch. Files from before noted under the name of the field how many they
#: hold.
NOTED_AS = {"accumulation_steps": "micro_batches"}
#: What is another program with another setting. A graph is answered on any compiler, and in any
#: precision, which the answer tells.
HELD_TO = tuple(name for name in (*WORDS, *NUMBERS) if name not in ("precision", "compiler"))

_BEFORE, _AFTER = b'],"source":', b',"tensors":['


def noted_source(canonical: bytes) -> Mapping[str, str]:
    """Return the source of a graph from its canonical JSON, of which nothing else is read.

    Examples
    --------
    >>> noted_source(b'{"format":1,"nodes":[],"source":{"mode":"training"},"tensors":[]}')
    {'mode': 'training'}
    """
    # A quotation mark within a text is written in another way, so that neither can be one.
    begin = canonical.find(_BEFORE) + len(_BEFORE)
    found: dict[str, str] = orjson.loads(canonical[begin : canonical.find(_AFTER, begin)])
    return found
