"""Write answers as JSON, deterministically: equal answers give equal bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from fastapi.responses import Response

from perfmodel.estimator import CellError, MatrixEstimate, basis_names
from service.errors import problem_of


def json_response(content: Any, status_code: int = 200) -> Response:
    """Return anything made of dataclasses, mappings, arrays and JSON values; NaN becomes null."""
    return Response(
        orjson.dumps(content, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY),
        status_code=status_code,
        media_type="application/json",
    )


def matrix_to_dict(matrix: MatrixEstimate) -> dict[str, Any]:
    """Return a matrix as columns: lists of one row a job, one element a placement."""
    jobs, placements = matrix.answered.shape
    return {
        "jobs": jobs,
        "placements": placements,
        "samples_per_second": matrix.samples_per_second,
        "low": matrix.low,
        "high": matrix.high,
        "coverage": matrix.coverage,
        "step_time_s": matrix.step_time_s,
        "peak_bytes": matrix.peak_bytes,
        "fits": _or_null(matrix.fits, matrix.answered),
        "basis": basis_names(matrix.basis),
        "out_of_distribution": _or_null(matrix.out_of_distribution, matrix.answered),
        "status": [["ok" if cell else "error" for cell in row] for row in matrix.answered.tolist()],
        "errors": [_cell_error(error) for error in matrix.errors],
        "unpriced_operators": matrix.unpriced_operators,
        "model_version": matrix.model_version,
        "warnings": matrix.warnings,
    }


def _or_null(
    flags: npt.NDArray[np.bool_], answered: npt.NDArray[np.bool_]
) -> list[list[bool | None]]:
    filled = flags.astype(object)
    filled[~answered] = None
    rows: list[list[bool | None]] = filled.tolist()
    return rows


def _cell_error(cell: CellError) -> dict[str, Any]:
    content = problem_of(cell.error)
    for item in content["errors"]:
        # Jobs and placements are read alone; in a matrix their pointers start at the list.
        for word, position in (("job", cell.job), ("placement", cell.placement)):
            head, _, rest = item["pointer"].removeprefix("/").partition("/")
            if position is not None and head == word:
                item["pointer"] = f"/{word}s/{position}" + (f"/{rest}" if rest else "")
    return {"job": cell.job, "placement": cell.placement, **content}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value.")
