"""Gradient-boosted trees: train, answer, and go to disk as JSON beside golden rows.

The one file that touches XGBoost. Boosters are stored as JSON (a damaged binary booster can
take the process down, a damaged JSON one is refused), each with a few feature rows and the
answers given at training time; a booster that answers differently after loading is refused.

A packed booster takes a tenth of the usual space: without what only training needs (gains, sums of
hessians, weights of inner nodes), with leaf values to three digits instead of nine, compressed.
"""

from __future__ import annotations

import json
import lzma
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from perfmodel.errors import DamagedArtifactError, MissingExtraError
from perfmodel.features.arrays import FloatArray

_GOLDEN_ROWS = 16
_GOLDEN_TOLERANCE = 1e-5
#: Below so many rows threads wait for each other longer than they work.
_ROWS_WORTH_THREADS = 8192

_TRAINING_ONLY = ("loss_changes", "sum_hessian", "base_weights")
_LEAF_DIGITS = 3
#: No booster is larger when unpacked; a file that says otherwise is damaged.
_LARGEST_BYTES = 1 << 27
_MEMORY_BYTES = 1 << 28


@dataclass(frozen=True, kw_only=True)
class BoosterSettings:
    """How to grow the trees.

    Parameters
    ----------
    bins : int
        Thresholds that a column is divided by.
    threads : int
        One by default: on a machine with other work, threads that wait for each other after
        every level of a tree take twenty times as long as one alone.
    tolerance : float or None
        Error up to which the loss is quadratic; quadratic everywhere by default.
    quantile : float or None
        Quantile that is answered, in (0, 1); the mean by default.
    """

    rounds: int = 300
    depth: int = 7
    learning_rate: float = 0.08
    min_child_weight: float = 1.0
    row_share: float = 0.8
    column_share: float = 0.6
    l2: float = 1.0
    bins: int = 64
    seed: int = 0
    threads: int = 1
    tolerance: float | None = None
    quantile: float | None = None


class Booster:
    """A trained booster with its column names.

    Parameters
    ----------
    columns : sequence of str
        Names of the feature columns, in order.
    golden : ndarray of float32
        A few training rows; kept to check a loaded copy.
    """

    def __init__(self, model: Any, columns: Sequence[str], golden: npt.NDArray[np.float32]) -> None:
        self.model = model
        self.columns = tuple(columns)
        self.golden = golden

    @classmethod
    def train(
        cls,
        features: npt.NDArray[np.float32],
        target: FloatArray,
        weight: FloatArray,
        columns: Sequence[str],
        settings: BoosterSettings,
    ) -> Booster:
        """Grow trees that minimise the weighted loss: the squared error, if nothing else is set.

        Parameters
        ----------
        features : ndarray of float32, shape (rows, columns)
        target, weight : ndarray, shape (rows,)
        """
        xgboost = _xgboost()
        threads = settings.threads if len(features) >= _ROWS_WORTH_THREADS else 1
        data = xgboost.DMatrix(
            features, label=target, weight=weight / weight.mean(), nthread=threads
        )
        parameters = {
            "objective": "reg:squarederror",
            "tree_method": "hist",
            "max_depth": settings.depth,
            "max_bin": settings.bins,
            "eta": settings.learning_rate,
            "min_child_weight": settings.min_child_weight,
            "subsample": settings.row_share,
            "colsample_bytree": settings.column_share,
            "lambda": settings.l2,
            "seed": settings.seed,
            "nthread": threads,
            "base_score": float(np.average(target, weights=weight)),
            "verbosity": 0,
        }
        if settings.tolerance is not None:
            parameters["objective"] = "reg:pseudohubererror"
            parameters["huber_slope"] = settings.tolerance
        if settings.quantile is not None:
            parameters["objective"] = "reg:quantileerror"
            parameters["quantile_alpha"] = settings.quantile
        model = xgboost.train(parameters, data, num_boost_round=settings.rounds)
        step = max(1, len(features) // _GOLDEN_ROWS)
        return cls(model, columns, features[::step][:_GOLDEN_ROWS].copy())

    def predict(self, features: npt.NDArray[np.float32]) -> FloatArray:
        """Return the answer of each row; one call for all rows, one row costs as much as many."""
        if not len(features):
            return np.zeros(0)
        answers = self.model.inplace_predict(np.ascontiguousarray(features, dtype=np.float32))
        return np.asarray(answers, dtype=np.float64)

    def use_threads(self, threads: int) -> None:
        """Set how many threads answers may use."""
        self.model.set_param({"nthread": threads})

    def save(self, folder: Path, stem: str) -> None:
        """Write ``<stem>.json`` and ``<stem>.golden.json``."""
        folder.mkdir(parents=True, exist_ok=True)
        self.model.save_model(str(folder / f"{stem}.json"))
        golden = {
            "columns": self.columns,
            "rows": self.golden.tolist(),
            "answers": self.predict(self.golden).tolist(),
        }
        (folder / f"{stem}.golden.json").write_text(json.dumps(golden, allow_nan=False))

    @classmethod
    def load(cls, folder: Path, stem: str, columns: Sequence[str]) -> Booster:
        """Read a booster and check it against its golden rows.

        Parameters
        ----------
        columns : sequence of str
            The columns that the code computes today; must be those of training.

        Returns
        -------
        Booster
            Answers on one thread until :meth:`use_threads`.

        Raises
        ------
        DamagedArtifactError
            A file that cannot be read, other columns, or other answers.
        """
        xgboost = _xgboost()
        path = folder / f"{stem}.json"
        try:
            golden = json.loads((folder / f"{stem}.golden.json").read_text())
            rows = np.array(golden["rows"], dtype=np.float32).reshape(-1, len(columns))
            expected = np.array(golden["answers"], dtype=np.float64)
            stored = tuple(golden["columns"])
            model = xgboost.Booster()
            model.load_model(bytearray(path.read_bytes()))
        except (OSError, ValueError, KeyError, TypeError, xgboost.core.XGBoostError) as error:
            raise DamagedArtifactError(
                f"The booster {path} cannot be read: {error}. Train the model again."
            ) from error
        if stored != tuple(columns):
            raise DamagedArtifactError(
                f"The booster {path} was trained on other feature columns than this version "
                "computes. Train the model again with this version."
            )
        booster = cls(model, columns, rows)
        booster.use_threads(1)
        booster._check(expected, path)
        return booster

    def _check(self, expected: FloatArray, path: Path) -> None:
        xgboost = _xgboost()
        try:
            answers = self.predict(self.golden)
        except (ValueError, xgboost.core.XGBoostError) as error:
            raise DamagedArtifactError(f"The booster {path} cannot answer: {error}.") from error
        if answers.shape != expected.shape or not np.allclose(
            answers, expected, rtol=_GOLDEN_TOLERANCE, atol=_GOLDEN_TOLERANCE
        ):
            raise DamagedArtifactError(
                f"The booster {path} answers its golden rows differently than when it was "
                "written. Restore the file or train the model again."
            )


def _xgboost() -> Any:
    try:
        import xgboost
    except ImportError as error:
        raise MissingExtraError("Answering from boosted trees", extra="serve") from error
    return xgboost


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
