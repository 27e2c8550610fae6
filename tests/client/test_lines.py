"""Keys, TLS and threads: what stands between a client and the service."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from certificates import own_certificate
from guarded_service import Guarded, guarded_service
from misbehaving import misbehaving
from running import running
from waiting import PATIENCE_S

from perfmodel.client import AsyncClient, Client, NotAllowedError, UnreachableError
from perfmodel.client.forms import Job

JOB: Job = {"model": "timm/resnet26", "mode": "training", "batch_size": 64}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    yield from guarded_service(tmp_path_factory)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return own_certificate(tmp_path_factory.mktemp("tls"))


def test_a_key_opens_what_its_scope_allows(guarded: Guarded) -> None:
    with running(guarded.app) as url:
        with (
            Client(url, timeout_s=PATIENCE_S) as stranger,
            pytest.raises(NotAllowedError) as refusal,
        ):
            stranger.predict(JOB, "T4")
        assert refusal.value.status == 401
        with Client(url, api_key=guarded.tokens["predict"], timeout_s=PATIENCE_S) as caller:
            assert caller.predict(JOB, "T4").step_time_s > 0
            with pytest.raises(NotAllowedError, match="scope") as refusal:
                caller.set_price("T4", 0.3)
            assert refusal.value.status == 403
        with Client(url, api_key=guarded.tokens["admin"], timeout_s=PATIENCE_S) as admin:
            assert admin.set_price("T4", 0.3).per_hour == 0.3


def test_threads_share_a_client(service: Client) -> None:
    batches = [1 + n % 7 for n in range(60)]
    # Where no other job was observed a moment ago, which would count from the next second on.
    place = "8xA10"
    expected = {n: service.predict({**JOB, "batch_size": n}, place) for n in set(batches)}
    with ThreadPoolExecutor(12) as threads:
        found = threads.map(lambda n: service.predict({**JOB, "batch_size": n}, place), batches)
        assert list(found) == [expected[n] for n in batches]


def test_tls_is_spoken_and_checked(certificate: Path) -> None:
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(certificate, certificate.with_suffix(".key"))
    trusting = ssl.create_default_context(cafile=str(certificate))

    async def ask(url: str) -> list[str]:
        async with AsyncClient(url, tls=trusting, timeout_s=PATIENCE_S) as client:
            return [(await client.health()).status for _ in range(2)]

    with misbehaving([], tls=own) as script:
        with Client(script.url, tls=trusting, timeout_s=PATIENCE_S) as client:
            assert [client.health().status for _ in range(2)] == ["ready", "ready"]
        assert asyncio.run(ask(script.url)) == ["ready", "ready"]
        # Two connections carried four requests.
        assert len({one.client_address for one in script.requests}) == 2
        with (
            Client(script.url, retries=0, timeout_s=PATIENCE_S) as stranger,
            pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED"),
        ):
            stranger.health()
