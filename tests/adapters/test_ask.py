"""Questions to the service: the same answers as in process, and none that cannot be used."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from adapter_world import raw_server, training

from perfmodel.adapters.adaptdl import step_grid
from perfmodel.adapters.adaptdl_speedup import BatchRange, speedup_fn
from perfmodel.adapters.ask import (
    Answers,
    NoAnswerError,
    SeenInMatrix,
    Service,
    log_problems,
    log_warnings,
)
from perfmodel.adapters.elasticflow import throughputs
from perfmodel.adapters.gavel import GavelJob, throughput_table
from perfmodel.adapters.local import LocalAnswers
from perfmodel.adapters.sia import SiaCluster, steps
from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator


def test_service_and_estimator_say_the_same(service: Service, estimator: Estimator) -> None:
    jobs = [training("timm/small"), training("timm/none"), training("timm/huge")]
    placements = ["4xT4", "nonsense", {"nodes": [{"accelerator": "A100"}]}]
    over_http = service.cells(jobs, placements)
    assert over_http == LocalAnswers(estimator).cells(jobs, placements)
    # A bad job costs its row, a bad placement its column.
    assert [[cell is None for cell in row] for row in over_http] == [
        [False, True, False],
        [True, True, True],
        [False, True, False],
    ]
    # 1.07 billion parameters in fp32 with gradients take 8.6 GB and more: not on 8 GB.
    [[fits, tight]] = service.cells([training("timm/huge")], ["H200", "P4"])
    assert fits is not None and tight is not None
    assert (fits.fits, tight.fits) == (True, False)


def test_observations_count_for_their_job(service: Service, estimator: Estimator) -> None:
    jobs = [training("timm/small"), {"job_type": "A3C", "mode": "training", "batch_size": 4}]
    places = ["V100", "4xV100", "T4"]
    seen: list[SeenInMatrix] = [
        {"job": 0, "placement": "V100", "batch_size": 64, "step_time_s": 0.5},
        {"job": 1, "placement": "V100", "batch_size": 4, "step_time_s": 0.25},
        {"job": 1, "placement": "4xV100", "batch_size": 4, "step_time_s": 0.3, "sync_time_s": 0.05},
    ]
    local = LocalAnswers(estimator)
    over_http = service.cells(jobs, places, seen)
    assert over_http == local.cells(jobs, places, seen)
    [[observed, _, _], [named, four, other]] = over_http
    assert observed is not None and observed.basis == "measured"
    assert observed.step_time_s == pytest.approx(0.5, rel=0.1)
    assert named is not None and named.basis == "measured"
    assert four is not None and other is not None
    assert four.low is not None and four.high is not None
    assert four.low <= four.samples_per_second <= four.high
    # Without observations nothing is known of a name: what jobs in general take is no answer.
    for answers in (service, local):
        [_, row] = answers.cells(jobs, places)
        assert row == [None, None, None]


def test_observations_that_cannot_be_read_get_no_answer(
    service: Service, estimator: Estimator
) -> None:
    for answers in (service, LocalAnswers(estimator)):
        for wrong in ({"job": 1}, {"step_time_s": -1.0}, {"placement": 7}):
            seen = {"job": 0, "placement": "T4", "batch_size": 64, "step_time_s": 0.5, **wrong}
            with pytest.raises(NoAnswerError):
                answers.cells([training("timm/small")], ["T4"], [seen])  # type: ignore[list-item]


def test_why_there_is_no_answer_is_in_the_log(
    service: Service, estimator: Estimator, caplog: pytest.LogCaptureFixture
) -> None:
    # Faster than its arithmetic allows: milliseconds, perhaps, for which the whole job is refused.
    seen: SeenInMatrix = {"job": 1, "placement": "T4", "batch_size": 64, "step_time_s": 1e-9}
    for answers in (service, LocalAnswers(estimator)):
        caplog.clear()
        jobs = [training("timm/wide"), training("timm/small")]
        [known, refused] = answers.cells(jobs, ["T4", "V100"], [seen])
        assert known[0] is not None and refused == [None, None]
        [told] = [one.getMessage() for one in caplog.records if "perfmodel.adapters" in one.name]
        assert told.startswith("job 1 of this question") and "Is it in seconds" in told


def test_what_a_table_rests_on_is_in_the_log_once(
    service: Service, estimator: Estimator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "perfmodel.adapters")
    for answers in (service, LocalAnswers(estimator)):
        caplog.clear()
        for _ in range(2):
            answers.cells([training("timm/small")], ["2x(1xT4)"])
        told = [one.getMessage() for one in caplog.records if "perfmodel.adapters" in one.name]
        assert sum("No network between the 2 hosts is given" in text for text in told) == 1
    log_warnings((str(number) for number in range(3000)), said := {"0"})
    assert 0 < len(said) <= 1000


def test_memory_is_that_of_the_catalogue(service: Service, estimator: Estimator) -> None:
    for name in ("V100-SXM2-16GB", "v100", "RTX3090", "gpu:a100", "no such thing"):
        assert service.memory_bytes(name) == LocalAnswers(estimator).memory_bytes(name)
    assert service.memory_bytes("V100") == pytest.approx(16e9, rel=0.1)


def test_no_failure_gets_past_the_deadline(failing_url: str) -> None:
    # Those that are slow are so until the client hangs up.
    failing = Service(failing_url, timeout_s=0.3)
    with pytest.raises(NoAnswerError):
        failing.cells([training("timm/small")], ["T4"])
    with pytest.raises(NoAnswerError):
        failing.memory_bytes("T4")


def test_a_silent_service_is_not_asked_again_at_once() -> None:
    asked = []
    with raw_server(asked.append) as url:
        silent = Service(url, timeout_s=60.0, rest_s=3600.0)
        for _ in range(3):
            with pytest.raises(NoAnswerError):
                silent.memory_bytes("T4")
        assert len(asked) == 1
        sooner = Service(url, timeout_s=60.0, rest_s=0.2)
        for _ in range(2):
            with pytest.raises(NoAnswerError):
                sooner.memory_bytes("T4")
            time.sleep(0.25)
        assert len(asked) == 3


def test_a_url_is_checked() -> None:
    with pytest.raises(InvalidInputError, match="http://"):
        Service("localhost:8000")


def test_a_reason_is_said_once_for_all_its_jobs(caplog: pytest.LogCaptureFixture) -> None:
    log_problems(
        [(job, "odd") for job in (0, 1, 2, 3, 7)] + [(None, "far"), (4, "own"), (4, "own")]
    )
    assert [one.getMessage() for one in caplog.records] == [
        "job 0, 1, 2 and 2 more of this question: not all is answered: odd",
        "some placements of this question: not all is answered: far",
        "job 4 of this question: not all is answered: own",
    ]


def _grid(answers: Answers, job: Any) -> object:
    return step_grid(answers, job, "V100", batch_sizes=[64], max_replicas=2)


def _speedup(answers: Answers, job: Any) -> object:
    batches = BatchRange(init_batch_size=64, max_batch_size=256, local_bsz_bounds=(32, 64))
    return speedup_fn(answers, job, "V100", batches, max_nodes=1)


def _sia(answers: Answers, job: Any) -> object:
    cluster = SiaCluster(accelerator="V100", per_node=2, nodes=1)
    return steps(answers, job, cluster, local_batch_sizes=[64])


def _elasticflow(answers: Answers, job: Any) -> object:
    return throughputs(answers, job, "V100", global_batch_sizes=[64], counts=[1])


def _gavel(answers: Answers, job: Any, observed: Any = None, pairs: bool = True) -> object:
    jobs = [GavelJob(job_type="some", job=job, scale_factors=(1,))]
    return throughput_table(answers, jobs, {"v100": "V100"}, observed=observed, pairs=pairs)


def _measured(answers: Answers, job: Any) -> object:
    return _gavel(answers, job, {"v100": {("some", 1): {"null": 3.0}}}, pairs=False)


@pytest.mark.parametrize("export", [_grid, _speedup, _sia, _elasticflow, _gavel, _measured])
def test_a_reference_is_refused_where_a_job_has_to_be_written_out(
    service: Service, export: Callable[[Answers, Any], object]
) -> None:
    export(service, training("timm/small"))
    for reference in ("timm/small-training-0123", {"ref": "timm/small-training-0123"}):
        with pytest.raises(InvalidInputError, match="must be written out"):
            export(service, reference)
