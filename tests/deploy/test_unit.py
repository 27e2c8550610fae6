"""The systemd unit: verified, and what it starts is started and stopped."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from free_ports import free_port

from perfmodel.cli.running.settings_file import read_settings_into

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy" / "systemd" / "perfmodel.service"
SETTINGS = ROOT / "deploy" / "systemd" / "settings.toml"
#: Longer than a start takes, however busy the machine is, seconds.
PATIENCE_S = 240.0


def _stated(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd is not installed (Debian: systemd)"
)
def test_systemd_verifies_the_unit(tmp_path: Path) -> None:
    installed = UNIT.read_text().replace("/opt/perfmodel/bin/perfmodel", sys.executable)
    unit = tmp_path / "perfmodel.service"
    unit.write_text(installed)
    told = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (told.returncode, told.stderr) == (0, "")
    looked_at = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(unit)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    # At most 2.0 of 10 is exposed.
    assert looked_at.returncode == 0, looked_at.stdout


def test_its_settings_are_settings() -> None:
    environment: dict[str, str] = {}
    read_settings_into(environment, SETTINGS)
    assert environment["PERFMODEL_DATABASE"].startswith("sqlite:////var/lib/perfmodel/")
    assert _stated("StateDirectory") == ["perfmodel"]


def test_what_it_starts_answers_and_stops(tmp_path: Path) -> None:
    port, health_port = free_port(), free_port()
    settings = tmp_path / "settings.toml"
    text = SETTINGS.read_text().replace("/var/lib/perfmodel/", f"{tmp_path}/")
    text = text.replace("/opt/perfmodel/models", str(tmp_path / "models"))
    settings.write_text(text.replace("8000", str(port)).replace("8001", str(health_port)))
    (command,) = _stated("ExecStart")
    program, *arguments = command.replace("/etc/perfmodel/settings.toml", str(settings)).split()
    assert program == "/opt/perfmodel/bin/perfmodel"
    process = subprocess.Popen(
        [sys.executable, "-m", "perfmodel", *arguments],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT), "PERFMODEL_DRAIN_S": "0.1"},
    )  # fmt: skip
    try:
        health = _answer(f"http://127.0.0.1:{health_port}/v2/health/ready", process)
        assert health["status"] in ("ready", "degraded")
        assert _answer(f"http://127.0.0.1:{port}/v2/health/live", process) == {"status": "live"}
        process.send_signal(signal.SIGTERM)
        # systemd takes both for a clean end.
        assert process.wait(PATIENCE_S) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.wait()
    assert (tmp_path / "perfmodel.db").exists()


def _answer(url: str, process: subprocess.Popen[bytes]) -> dict[str, object]:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        assert process.poll() is None
        try:
            with urlopen(url, timeout=PATIENCE_S) as answer:
                found = json.load(answer)
        except (URLError, OSError):
            time.sleep(0.05)
            continue
        return {name: value for name, value in found.items() if value not in (None, [])}
    raise AssertionError(f"{url} does not answer")
