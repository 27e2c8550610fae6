"""Tables for people that ``nsys profile --stats=true`` prints, and are refused with the reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NoReturn

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.limits import TraceLimits

NAME = "nsys-text"
_REPORT = re.compile(rb"Executing '\w+' stats report|Processing \[[^\]]+\] with \[")
_RULED = re.compile(rb"^\s*-{4,}(?:\s+-{4,}){3,}\s*$", re.MULTILINE)


def recognise(head: bytes, path: Path) -> bool:
    """Tell whether a file is such a print."""
    return _REPORT.search(head) is not None and _RULED.search(head) is not None


def read(path: Path, limits: TraceLimits) -> NoReturn:
    """Refuse the print.

    Raises
    ------
    InvalidTraceError
        Always, with what to give instead.
    """
    raise InvalidTraceError(
        f"{path.name} is the print of nsys for people: columns are set by blanks, names are cut, "
        "and several runs may stand in it. Give the report as CSV: "
        "`nsys stats --report cuda_gpu_trace --format csv FILE.nsys-rep`."
    )
