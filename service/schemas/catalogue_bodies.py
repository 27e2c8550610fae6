"""The bodies of accelerators, their names and their prices."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from perfmodel.client import records
from service.schemas.from_dataclass import EXACT, model_of

#: The facts that each accelerator has; others stand beside them.
AcceleratorBody = model_of(
    records.Accelerator,
    "AcceleratorBody",
    config=ConfigDict(extra="allow"),
    without=(
        "architecture", "form_factor", "year", "tdp_w", "link_bandwidth_bytes_per_s", "custom",
    ),
)  # fmt: skip
AcceleratorsAnswer = model_of(records.Accelerators, "AcceleratorsAnswer", config=None)

AliasAnswer = model_of(records.Alias, "AliasAnswer")
PriceEntry = model_of(records.Price, "PriceEntry")
PricesAnswer = model_of(records.Prices, "PricesAnswer")


class AcceleratorFacts(BaseModel):
    """Facts of an accelerator in SI units; a fact that nobody states is left out."""

    model_config = EXACT

    kind: Literal["gpu", "cpu", "tpu", "npu"]
    vendor: str
    architecture: str
    form_factor: str
    peak_flops: dict[Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"], float] = Field(
        description="Dense peaks, FLOP/s with fp32 accumulation; int8 in operations/s."
    )
    memory_bytes: float = Field(gt=0)
    bandwidth_bytes_per_s: float = Field(gt=0)
    peak_flops_fp16_accumulate: float | None = Field(None, gt=0)
    matmul_flops_per_s: float | None = Field(None, gt=0)
    cache_bytes: float | None = Field(None, gt=0, description="Last-level cache.")
    core_count: int | None = Field(None, gt=0)
    clock_hz: float | None = Field(None, gt=0)
    sustained_clock_hz: float | None = Field(
        None, gt=0, description="What lasts under load, where it is not the boost clock."
    )
    tdp_w: float | None = Field(None, gt=0)
    pcie_generation: float | None = Field(None, gt=0)
    link: str | None = Field(None, description="What joins neighbours within a host: `nvlink4`.")
    link_bandwidth_bytes_per_s: float | None = Field(None, gt=0, description="One direction.")
    year: int | None = Field(None, gt=0)
    sources: dict[str, str] = Field(
        default_factory=dict, description="Where each number comes from."
    )
    notes: str = ""
    name: str | None = Field(None, description="As in the path.")
