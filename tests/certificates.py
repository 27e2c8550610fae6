"""A certificate for the loopback that signs itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def own_certificate(folder: Path) -> Path:
    """Make ``tls.crt`` and ``tls.key``; return the first, or skip with the reason."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    make = [
        openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-days", "2", "-subj", "/CN=perfmodel", "-addext",
        "subjectAltName=IP:127.0.0.1", "-keyout", str(folder / "tls.key"),
        "-out", str(folder / "tls.crt"),
    ]  # fmt: skip
    subprocess.run(make, check=True, capture_output=True)
    return folder / "tls.crt"
