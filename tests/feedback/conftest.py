"""Tests here read the made-up clusters that lie beside the benchmarks."""

import report_path  # noqa: F401
