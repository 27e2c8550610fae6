"""The webhook over TLS: a real server, a certificate of its own, a client that checks it."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_bodies import job_text, pod

OPENSSL = shutil.which("openssl")

START = """
import sys
from service.serve import serve
serve(port=0, models=sys.argv[1], database=sys.argv[2])
"""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a key and a certificate for the loopback, signed by itself."""
    if OPENSSL is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    folder = tmp_path_factory.mktemp("tls")
    make = [
        OPENSSL, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-days", "2", "-subj", "/CN=perfmodel", "-addext",
        "subjectAltName=IP:127.0.0.1", "-keyout", str(folder / "tls.key"),
        "-out", str(folder / "tls.crt"),
    ]  # fmt: skip
    subprocess.run(make, check=True, capture_output=True)
    return folder / "tls.crt"


@pytest.fixture(scope="module")
def url(certificate: Path) -> Iterator[str]:
    folder = certificate.parent
    root = Path(__file__).resolve().parents[4]
    environment = {
        **os.environ,
        "PYTHONPATH": str(root),
        "PERFMODEL_TLS_CERTIFICATE": str(certificate),
        "PERFMODEL_TLS_KEY": str(certificate.with_suffix(".key")),
    }
    command = [sys.executable, "-c", START, str(folder / "models"), f"sqlite:///{folder}/a.db"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        assert len(words) > 3
        yield words[3]
        process.terminate()
        process.wait(timeout=20)


def test_an_admission_is_reviewed_over_tls(url: str, certificate: Path) -> None:
    assert url.startswith("https://127.0.0.1:")
    review = {"request": {"uid": "u-1", "operation": "CREATE", "object": pod(job_text())}}
    request = urllib.request.Request(
        f"{url}/kubernetes/admission/mutate?timeout=5s",
        json.dumps(review).encode(),
        {"Content-Type": "application/json"},
    )
    trusting = ssl.create_default_context(cafile=str(certificate))
    with urllib.request.urlopen(request, timeout=10, context=trusting) as response:
        answer = json.load(response)
    # No node was seen yet: the pod is admitted as it is.
    assert answer["response"] == {"uid": "u-1", "allowed": True}
    assert answer["apiVersion"] == "admission.k8s.io/v1"


def test_strangers_to_the_certificate_do_not_trust_it(url: str) -> None:
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(f"{url}/v2/health/live", timeout=5)
