"""Tests here read modules that lie beside the benchmarks."""

import report_path  # noqa: F401
