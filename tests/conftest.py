"""Fixtures that more than one part of the suite uses."""

from __future__ import annotations

import os

# Two threads at most, set before any numeric library loads: tests share a small machine, and
# results must not depend on how many cores it has.
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
