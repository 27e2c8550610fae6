"""What is not sent twice: answers that have not changed, long bodies as they are."""

from __future__ import annotations

import gzip
import json

from misbehaving import misbehaving, say
from waiting import PATIENCE_S

from perfmodel.client import Client
from perfmodel.client.protocol.messages import Reply, Request
from perfmodel.client.protocol.session import Kept, KeptAnswers
from perfmodel.client.protocol.wire import Wire

JOB = {"model": "timm/resnet34", "mode": "training", "batch_size": 64}


class Noting:
    """A wire that notes what went over it."""

    def __init__(self) -> None:
        self._wire = Wire()
        self.replies: list[Reply] = []
        self.requests: list[Request] = []

    def send(self, request: Request, timeout_s: float) -> Reply:
        self.requests.append(request)
        self.replies.append(self._wire.send(request, timeout_s))
        return self.replies[-1]

    def close(self) -> None:
        self._wire.close()


def test_an_answer_that_has_not_changed_is_not_sent_again(url: str) -> None:
    wire = Noting()
    with Client(url, transport=wire, timeout_s=300.0) as service:
        first = service.curve(JOB, "T4", most=16)
        assert service.curve(JOB, "T4", most=16) == first
        assert [one.status for one in wire.replies] == [200, 304]
        assert wire.replies[1].content == b""
        # Another question, and one whose answer has changed by what was observed meanwhile.
        service.curve(JOB, "T4", most=8)
        job = {**JOB, "batch_size": 33}
        before = service.matrix([job], ["T4"])
        [[step_time_s]] = before.step_time_s
        assert step_time_s is not None
        service.observe([{"job": job, "placement": "T4", "step_time_s": 3 * step_time_s}])
        after = service.matrix([job], ["T4"])
        assert wire.replies[-1].status == 200
        assert after.step_time_s != before.step_time_s


def test_long_bodies_go_out_compressed_and_long_answers_come_so(url: str) -> None:
    wire = Noting()
    with Client(url, transport=wire, timeout_s=300.0, compress_above_bytes=1_000) as service:
        jobs = [{**JOB, "batch_size": 1 + n} for n in range(25)]
        found = service.matrix(jobs, ["T4", "L4"])
    body = wire.requests[0].body
    assert body is not None
    assert wire.requests[0].headers["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(body))["jobs"] == jobs
    assert len(body) < len(json.dumps(jobs)) / 3
    assert wire.replies[0].headers["content-encoding"] == "gzip"
    assert len(found.samples_per_second) == 25


def test_kept_answers_make_room_for_those_that_are_used() -> None:
    kept = KeptAnswers(10)
    for key, size in ((b"a", 4), (b"b", 4), (b"c", 11)):
        kept.put(key, Kept(tag=key.decode(), answer=None, size_bytes=size))
    assert kept.get(b"c") is None  # larger than all the room
    assert kept.get(b"a") is not None
    kept.put(b"d", Kept(tag="d", answer=None, size_bytes=4))
    assert [kept.get(key) is not None for key in (b"a", b"b", b"d")] == [True, False, True]
    kept.put(b"a", Kept(tag="e", answer=None, size_bytes=6))
    assert [kept.get(key) is not None for key in (b"a", b"d")] == [True, True]


def test_the_query_of_a_call_is_part_of_its_question() -> None:
    with misbehaving([say(200, {"jobs": [], "next_cursor": None})]) as script:
        with Client(script.url, timeout_s=PATIENCE_S) as service:
            assert service.jobs_page(limit=3, cursor="a b&c").items == ()
        assert script.requests[0].path == "/v1/jobs?limit=3&cursor=a+b%26c"
