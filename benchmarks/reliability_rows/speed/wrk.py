"""Requests of distinct bodies over HTTP: by wrk where it is installed, else by this process."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from http_throughput import PATH, load

#: Reads bodies of a file, a line each, and sends them in turn; tells what came of it as JSON.
_SCRIPT = """
local bodies, at = {{}}, 0
for line in io.lines("{bodies}") do bodies[#bodies + 1] = line end
request = function()
  at = at % #bodies + 1
  return wrk.format("POST", "{path}", {{["Content-Type"] = "application/json"}}, bodies[at])
end
done = function(summary, latency)
  local errors = summary.errors
  local form = '{{"requests": %d, "us": %d, "p50_us": %d, "p99_us": %d, "errors": %d}}\\n'
  io.write(string.format(form,
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What came of sending for some seconds.

    Parameters
    ----------
    by : str
        What sent.
    """

    requests: int
    requests_per_s: float
    p50_ms: float
    p99_ms: float
    errors: int
    by: str

    def said(self) -> str:
        """Return it in words."""
        return (
            f"{self.requests_per_s:,.0f}/s, p50 {self.p50_ms:.1f} ms, p99 {self.p99_ms:.1f} ms, "
            f"{self.errors} errors of {self.requests:,} ({self.by})"
        )


def send(
    folder: Path, port: int, bodies: Sequence[bytes], *, seconds: int, connections: int
) -> Load:
    """Send bodies in turn for some seconds, one after the other on each connection."""
    if shutil.which("wrk") is None:
        found = asyncio.run(load(port, itertools.cycle(bodies), seconds, connections))
        return Load(**found, by="asyncio of Python")
    script, file = folder / "send.lua", folder / "bodies"
    file.write_bytes(b"\n".join(bodies))
    script.write_text(_SCRIPT.format(bodies=file, path=PATH), encoding="utf-8")
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "-s",
               str(script), f"http://127.0.0.1:{port}"]  # fmt: skip
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    told = re.findall(r"^\{.*\}$", said, re.MULTILINE)
    one = json.loads(told[-1])
    return Load(
        requests=one["requests"], requests_per_s=1e6 * one["requests"] / one["us"],
        p50_ms=one["p50_us"] / 1e3, p99_ms=one["p99_us"] / 1e3, errors=one["errors"], by="wrk",
    )  # fmt: skip
