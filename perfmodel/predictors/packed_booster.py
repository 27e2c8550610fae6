"""Boosters in a tenth of their usual space on disk.

A stored booster carries what only training needs (gains, sums of hessians, weights of inner nodes)
and leaf values to nine digits. Without the first, with leaves to three digits and compressed, ten
fit where one did.
"""

from __future__ import annotations

import lzma
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from perfmodel.errors import DamagedArtifactError
from perfmodel.predictors.boosting import Booster

_TRAINING_ONLY = ("loss_changes", "sum_hessian", "base_weights")
_LEAF_DIGITS = 3
#: No booster is larger when unpacked; a file that says otherwise is damaged.
_LARGEST_BYTES = 1 << 27
_MEMORY_BYTES = 1 << 28


def slim(booster: Booster) -> Booster:
    """Return a booster without what only training needs, its leaves rounded.

    Its answers are those that :func:`read_packed` will give.
    """
    content = orjson.loads(bytes(booster.model.save_raw(raw_format="json")))
    for tree in content["learner"]["gradient_booster"]["model"]["trees"]:
        for name in _TRAINING_ONLY:
            tree[name] = [0.0] * len(tree[name])
        tree["split_conditions"] = _rounded_leaves(tree)
    model = type(booster.model)()
    model.load_model(bytearray(orjson.dumps(content)))
    found = Booster(model, booster.columns, booster.golden)
    found.use_threads(1)
    return found


def write_packed(folder: Path, stem: str, booster: Booster) -> None:
    """Write ``<stem>.json.xz`` and ``<stem>.golden.json``; the same bytes for the same booster."""
    with tempfile.TemporaryDirectory() as temporary:
        booster.save(Path(temporary), stem)
        content = (Path(temporary) / f"{stem}.json").read_bytes()
        (folder / f"{stem}.json.xz").write_bytes(lzma.compress(content))
        golden = (Path(temporary) / f"{stem}.golden.json").read_bytes()
        (folder / f"{stem}.golden.json").write_bytes(golden)


def read_packed(folder: Path, stem: str, columns: Sequence[str]) -> Booster:
    """Read what :func:`write_packed` wrote and check the golden rows.

    Raises
    ------
    DamagedArtifactError
        A file that cannot be read, other columns, or other answers.
    """
    path = folder / f"{stem}.json.xz"
    try:
        unpacker = lzma.LZMADecompressor(memlimit=_MEMORY_BYTES)
        content = unpacker.decompress(path.read_bytes(), max_length=_LARGEST_BYTES)
        # XGBoost takes the process down over an empty buffer: only what passed the checksum at
        # the end of the file reaches it.
        if not unpacker.eof or not content:
            raise ValueError("it ends early or is too large")
        golden = (folder / f"{stem}.golden.json").read_bytes()
    except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
        raise DamagedArtifactError(
            f"{path} cannot be read: {error}. Train the model again."
        ) from error
    with tempfile.TemporaryDirectory() as temporary:
        (Path(temporary) / f"{stem}.json").write_bytes(content)
        (Path(temporary) / f"{stem}.golden.json").write_bytes(golden)
        return Booster.load(Path(temporary), stem, columns)


def _rounded_leaves(tree: dict[str, Any]) -> list[float]:
    """Return the conditions of a tree; those of leaves are their values."""
    return [
        float(f"{value:.{_LEAF_DIGITS}g}") if child == -1 else value
        for value, child in zip(tree["split_conditions"], tree["left_children"], strict=True)
    ]
