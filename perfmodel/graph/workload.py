"""The Workload: a graph on one accelerator, as it is profiled, featurised and predicted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.graph.ir import Graph
from perfmodel.types import Compiler, MemoryFormat, Mode, Precision


@dataclass(frozen=True, kw_only=True)
class StepSetup:
    """On what one step of a job runs, and how.

    Parameters
    ----------
    batch_size : int
        Samples per step, >= 1.
    software : mapping of str to str
        Versions that matter (``torch``, ``cuda``); empty where unknown.
    threads : int or None
        CPU threads used; None off the CPU.
    """

    accelerator: AcceleratorSpec
    mode: Mode
    batch_size: int
    precision: Precision = Precision.FP32
    memory_format: MemoryFormat = MemoryFormat.CHANNELS_FIRST
    compiler: Compiler = Compiler.EAGER
    software: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    threads: int | None = None


@dataclass(frozen=True, kw_only=True)
class Workload(StepSetup):
    """One step of a job on one accelerator.

    Parameters
    ----------
    graph : Graph
        The step, captured at ``batch_size`` and ``precision``.
    execution : str
        As in :class:`~perfmodel.records.StepRecord`; empty for the compiler's usual way.
    """

    graph: Graph
    execution: str = ""

    @cached_property
    def content_hash(self) -> str:
        """Hash of graph, accelerator name and settings; software versions are left out."""
        key = {
            "graph": self.graph.content_hash,
            "accelerator": self.accelerator.name,
            "mode": self.mode,
            "batch_size": self.batch_size,
            "precision": self.precision,
            "memory_format": self.memory_format,
            "compiler": self.compiler,
            "threads": self.threads,
        }
        if self.execution:
            key["execution"] = self.execution
        text = json.dumps(key, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]
