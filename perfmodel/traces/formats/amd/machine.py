"""What lies beside a table of dispatches and describes the machine.

rocprofv3 writes ``..._agent_info.csv`` (a row for each CPU and GPU), rocprofiler-compute
``sysinfo.csv`` (one row for the machine, all GPUs of which are alike).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perfmodel.traces.formats.tables import Table, open_table
from perfmodel.traces.limits import TraceLimits
from perfmodel.traces.trace import UNKNOWN
from perfmodel.traces.traced_devices import TracedDevice, traced_device

#: ``"Agent 7"``, ``"7"``; GPUs alone are counted in ``"GPU 3"`` (``--agent-index type-relative``).
_AGENT = re.compile(r"(?:Agent |GPU )?(\d{1,9})")
#: Steppings of a chip: rocprofiler-compute calls an MI300X ``MI300X_A1``.
_STEPPING = re.compile(r"_A\d$")


@dataclass(frozen=True, kw_only=True)
class AgentTable:
    """The devices of a machine as tables of dispatches name them.

    Parameters
    ----------
    known : mapping of str to TracedDevice
        By the name in a row, ``"Agent 2"`` or ``"GPU 0"``; the name ``""`` stands for every device.
    """

    known: Mapping[str, TracedDevice] = field(default_factory=dict)
    software: Mapping[str, str] = field(default_factory=dict)
    _handles: dict[str, int] = field(default_factory=dict)

    def index(self, written: str) -> int:
        """Return the number of a device; handles are numbered as they come."""
        if not written:
            return UNKNOWN
        found = _AGENT.fullmatch(written)
        return int(found[1]) if found else self._handles.setdefault(written, len(self._handles))

    def devices(self, used: Iterable[str]) -> list[TracedDevice]:
        """Return the devices that rows name, described as far as a table beside them does."""
        found = {}
        for written in used:
            index = self.index(written)
            facts = self.known.get(written) or self.known.get("")
            if facts is None:
                facts = traced_device(index, "")
            found[index] = TracedDevice(
                index=index,
                name=facts.name,
                accelerator=facts.accelerator,
                guessed=facts.guessed,
                memory_bytes=facts.memory_bytes,
                multiprocessors=facts.multiprocessors,
                architecture=facts.architecture,
            )
        return [found[index] for index in sorted(found)]


def read_agents(path: Path, limits: TraceLimits) -> AgentTable:
    """Return what lies beside a table of dispatches, or nothing known.

    Raises
    ------
    InvalidTraceError
        It is there and damaged.
    """
    agents = path.with_name(path.name.replace("kernel_trace.csv", "agent_info.csv"))
    if agents != path and agents.is_file():
        return _agent_info(open_table(agents, limits, is_agent_info))
    machine = path.with_name("sysinfo.csv")
    if machine != path and machine.is_file():
        return _system_info(open_table(machine, limits, is_system_info))
    return AgentTable()


def is_agent_info(columns: frozenset[str]) -> bool:
    """Tell the header of rocprofv3's ``agent_info.csv``."""
    return {"agenttype", "productname", "nodeid"} <= columns


def is_system_info(columns: frozenset[str]) -> bool:
    """Tell the header of rocprofiler-compute's ``sysinfo.csv``."""
    return {"gpuarch", "gpumodel", "rocmversion"} <= columns


def _agent_info(table: Table) -> AgentTable:
    node, kind = table.required("Node_Id"), table.required("Agent_Type")
    logical, cores = table.position("Logical_Node_Id"), table.position("Cu_Count")
    product, name = table.required("Product_Name"), table.position("Name")
    known: dict[str, TracedDevice] = {}
    gpus = 0
    for row in table.rows:
        if row[kind].strip().upper() != "GPU":
            continue
        facts = traced_device(
            table.whole(row, node),
            row[product],
            multiprocessors=table.whole(row, cores) if cores is not None else None,
            architecture=row[name] if name is not None else "",
        )
        known[row[node]] = facts
        known[f"Agent {row[logical] if logical is not None else row[node]}"] = facts
        known[f"GPU {gpus}"] = facts
        gpus += 1
    return AgentTable(known=known)


def _system_info(table: Table) -> AgentTable:
    row = next(table.rows, None)
    if row is None:
        return AgentTable()
    facts = traced_device(
        UNKNOWN,
        _STEPPING.sub("", row[table.required("gpu_model")]),
        multiprocessors=table.whole(row, table.required("cu_per_gpu")),
        architecture=row[table.required("gpu_arch")],
    )
    return AgentTable(known={"": facts}, software={"rocm": row[table.required("rocm_version")]})
