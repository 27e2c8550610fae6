"""Puts what judges and reports beside the benchmarks, no part of the package, on the path."""

import sys
from pathlib import Path

_FOLDER = str(Path(__file__).resolve().parents[1] / "benchmarks")
if _FOLDER not in sys.path:
    sys.path.append(_FOLDER)
