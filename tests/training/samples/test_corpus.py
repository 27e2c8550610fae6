"""From published steps to samples with kept sketches."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfmodel.engines.local_engine import LocalEngine
from perfmodel.graph.job import Job
from perfmodel.importers.published import Origin, PublishedStep
from perfmodel.training.captures.capture_key import capture_key, capture_view
from perfmodel.training.captures.capture_pool import CapturePool
from perfmodel.training.captures.kept_sketches import kept_sketches
from perfmodel.training.samples.corpus import build_corpus, source_name
from perfmodel.types import Compiler, MemoryFormat, Mode, Precision
from perfmodel.zoo.resolve import capture_job

_ORIGIN = Origin(source="huggingface/pytorch-image-models results/", licence="Apache-2.0")


def _step(model: str = "timm/test_vit", accelerator: str = "L4", **job: object) -> PublishedStep:
    plain = Job(model=model, batch_size=8, precision=Precision.AMP_FP16)
    return PublishedStep(
        job=replace(plain, **job),  # type: ignore[arg-type]
        accelerator=accelerator,
        samples_per_second=400.0,
        origin=_ORIGIN,
        memory_bytes=1e9,
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder of kept sketches, filled once for all tests of this file."""
    folder = tmp_path_factory.mktemp("sketches")
    build_corpus([_step(), _step("timm/no_such_net")], cache=folder, engine=LocalEngine())
    return folder


def test_a_sample_holds_the_sketch_and_family_of_its_graph(cache: Path) -> None:
    corpus = build_corpus([_step()], cache=cache, engine=LocalEngine())
    (sample,) = corpus.samples
    graph = capture_job(_step().job)
    assert sample.step.sketch.content_hash == graph.content_hash
    assert sample.family == graph.source["family"]
    # 8 samples at 400 samples/s.
    assert sample.step_time_s == pytest.approx(0.02)
    assert (sample.source, sample.model) == ("timm", "timm/test_vit")
    assert sample.step.accelerator.name == "L4"


def test_settings_that_leave_the_graph_as_it_is_share_one_sketch(cache: Path) -> None:
    corpus = build_corpus(
        [
            _step(),
            _step(accelerator="T4", memory_format=MemoryFormat.CHANNELS_LAST),
            _step(compiler=Compiler.INDUCTOR, software={"torch": "2.9.1"}),
            _step(precision=Precision.AMP_BF16),
        ],
        cache=cache,
        engine=LocalEngine(),
    )
    assert len({id(sample.step.sketch) for sample in corpus.samples}) == 1
    assert [s.step.precision for s in corpus.samples].count(Precision.AMP_BF16) == 1
    assert corpus.samples[1].step.memory_format is MemoryFormat.CHANNELS_LAST


def test_precisions_that_share_a_sketch_have_the_same_structure() -> None:
    for precision in (Precision.AMP_BF16, Precision.TF32):
        job = _step(precision=precision).job
        own, shared = capture_job(job), capture_job(capture_view(job))
        assert [node.op for node in own.nodes] == [node.op for node in shared.nodes]
        assert [t.size_bytes for t in own.tensors] == [t.size_bytes for t in shared.tensors]


@pytest.mark.parametrize(
    "change",
    [
        {"batch_size": 16},
        {"mode": Mode.TRAINING},
        {"mode": Mode.TRAINING, "optimizer": "adam"},
        {"model_kwargs": {"img_size": 64}},
        {"precision": Precision.FP32},
        {"model": "timm/test_resnet"},
    ],
)
def test_what_a_capture_reads_changes_its_key(change: dict[str, object]) -> None:
    assert capture_key(_step(**change).job) != capture_key(_step().job)  # type: ignore[arg-type]


def test_what_cannot_be_used_is_counted_by_reason(cache: Path) -> None:
    steps = [
        _step(),
        _step("timm/no_such_net"),
        _step(accelerator="Abacus-9000"),
        replace(_step(), samples_per_second=float("inf")),
        # A table holds one batch that no job may have; the others are learned from all the same.
        _step("zoo/ncf", batch_size=2**24 + 1),
    ]
    corpus = build_corpus(steps, cache=cache, engine=LocalEngine())
    assert len(corpus.samples) == 1
    assert corpus.dropped == {
        "UnknownModelError": 1,
        "UnknownAcceleratorError": 1,
        "no positive time": 1,
        "InvalidInputError": 1,
    }
    assert {failure.label for failure in corpus.failures} == {"timm/no_such_net", "zoo/ncf"}


@pytest.mark.usefixtures("captured_here")
def test_a_damaged_sketch_is_made_again(cache: Path, tmp_path: Path) -> None:
    job = _step().job
    key = capture_key(job)
    shutil.copytree(cache, tmp_path, dirs_exist_ok=True)
    kept, failures = kept_sketches({key: job}, cache=tmp_path, engine=LocalEngine())
    path = tmp_path / key[:2] / f"{key}.npz"
    path.write_bytes(path.read_bytes()[:100])
    again, failed = kept_sketches({key: job}, cache=tmp_path, engine=LocalEngine())
    assert not failures
    assert not failed
    np.testing.assert_array_equal(again[key].sketch.count, kept[key].sketch.count)


def test_a_worker_that_dies_costs_one_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A worker that cannot even start answers nothing: the job is a crash, not the run.
    monkeypatch.setattr("sys.executable", "/bin/false")
    jobs = {"a": _step().job, "b": _step("timm/resnet34").job}
    for engine in (LocalEngine(), LocalEngine(workers=2)):
        failures = CapturePool(tmp_path, engine=engine).run(jobs)
        assert {failure.reason for failure in failures.values()} == {"crashed"}
        assert set(failures) == {"a", "b"}


def test_sources_have_short_names() -> None:
    assert source_name("lambdal/deeplearning-benchmark pytorch/") == "lambda"
    assert source_name("someone/other-bench") == "other-bench"


def test_reference_workloads_are_known_by_their_own_code() -> None:
    keys = {name: capture_key(_step(f"zoo/{name}").job) for name in ("bert-base-squad", "gnmt")}
    assert len(set(keys.values())) == 2
    assert keys["gnmt"] == capture_key(_step("zoo/gnmt", accelerator="T4").job)
    # A name that is not in the register has a key too: what it cannot do is told by the capture.
    assert capture_key(_step("zoo/no-such").job) not in keys.values()
