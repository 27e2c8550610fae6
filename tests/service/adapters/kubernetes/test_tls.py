"""The webhook over TLS: a real server, a certificate of its own, a client that checks it."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import own_certificate
from cluster_bodies import job_text, pod
from service_process import service_process
from waiting import PATIENCE_S


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return own_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def url(certificate: Path) -> Iterator[str]:
    folder = certificate.parent
    own = {
        "PERFMODEL_TLS_CERTIFICATE": str(certificate),
        "PERFMODEL_TLS_KEY": str(certificate.with_suffix(".key")),
    }
    models, database = str(folder / "models"), f"sqlite:///{folder}/a.db"
    with service_process(database, folder, models=models, **own) as (_, service):
        yield service.url


def test_an_admission_is_reviewed_over_tls(url: str, certificate: Path) -> None:
    assert url.startswith("https://127.0.0.1:")
    review = {"request": {"uid": "u-1", "operation": "CREATE", "object": pod(job_text())}}
    request = urllib.request.Request(
        f"{url}/kubernetes/admission/mutate?timeout=5s",
        json.dumps(review).encode(),
        {"Content-Type": "application/json"},
    )
    trusting = ssl.create_default_context(cafile=str(certificate))
    with urllib.request.urlopen(request, timeout=PATIENCE_S, context=trusting) as response:
        answer = json.load(response)
    # No node was seen yet: the pod is admitted as it is.
    assert answer["response"] == {"uid": "u-1", "allowed": True}
    assert answer["apiVersion"] == "admission.k8s.io/v1"


def test_strangers_to_the_certificate_do_not_trust_it(url: str) -> None:
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(f"{url}/v2/health/live", timeout=PATIENCE_S)
