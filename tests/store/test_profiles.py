"""The store of measurements: journal, compaction, damage."""

import dataclasses
import errno
import hashlib
from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest

from perfmodel.errors import StoreError, UnknownGraphError
from perfmodel.graph.canonical import to_json
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.profilers.wire import key_of
from perfmodel.records import Measurement, OperatorRecord, Provenance, StepRecord
from perfmodel.store import durable
from perfmodel.store.profiles import ProfileStore
from perfmodel.store.profiles.profile_tables import ADDED_COLUMNS
from perfmodel.types import Compiler, MemoryFormat, Mode, Phase, Precision, Role

DEVICE = "cpu-test (2 cores)"

DAMAGES = ("torn", "flipped", "empty")


def graph_of(width: int) -> Graph:
    tensors = (
        Tensor(shape=(width, 4), dtype="float32", role=Role.INPUT, storage=0),
        Tensor(shape=(width, 4), dtype="float32", role=Role.ACTIVATION, storage=1),
    )
    node = Node(op="relu", phase=Phase.FORWARD, inputs=(0,), outputs=(1,), name="act")
    return Graph(nodes=(node,), tensors=tensors)


def measurement_of(width: int, *, when: str = "2026-01-01T00:00:00+00:00") -> Measurement:
    graph = graph_of(width)
    workload_hash = f"{width:032x}"
    step = StepRecord(
        workload_hash=workload_hash,
        graph_hash=graph.content_hash,
        model="zoo/mlp",
        family="mlp",
        job={"model": "zoo/mlp", "mode": "inference", "batch_size": width},
        accelerator=DEVICE,
        mode=Mode.INFERENCE,
        batch_size=width,
        precision=Precision.FP32,
        memory_format=MemoryFormat.CHANNELS_FIRST,
        compiler=Compiler.EAGER,
        step_time_s=0.2,
        samples_s=(0.1, 0.2, 0.3),
        low_s=0.12,
        high_s=0.28,
        spread=0.8,
        noisy=True,
        warmup_steps=2,
        peak_memory_bytes=None if width == 1 else 1e6,
        provenance=Provenance(
            accelerator={"name": DEVICE, "peak_flops": {"fp32": 1e11}},
            software={"torch": "2.0"},
            measured_at=when,
            source="perfmodel 0",
            threads=2,
            notes="by hand",
        ),
    )
    record = OperatorRecord(
        workload_hash=workload_hash, node=0, op="relu", phase=Phase.FORWARD, time_s=123e-9
    )
    return Measurement(step=step, operators=(record,), joined_share=0.97, unjoined={"detach": 1e-6})


@pytest.fixture
def store(tmp_path: Path) -> ProfileStore:
    return ProfileStore(tmp_path / "profiles")


def fill(store: ProfileStore, widths: range) -> list[Measurement]:
    measurements = [measurement_of(width) for width in widths]
    for one, width in zip(measurements, widths, strict=True):
        store.append(one, graph_of(width))
    return measurements


@pytest.mark.parametrize("compacted", [False, True])
def test_everything_comes_back_as_it_went_in(store: ProfileStore, compacted: bool) -> None:
    measurements = fill(store, range(1, 4))
    if compacted:
        assert len(store.compact()) == 3
    assert sorted(store.iter_measurements(), key=lambda one: one.step.workload_hash) == measurements
    assert sorted(store.steps(DEVICE), key=lambda s: s.workload_hash) == [
        one.step for one in measurements
    ]
    assert store.operators(measurements[1].step.workload_hash) == measurements[1].operators
    for width in range(1, 4):
        assert to_json(store.graph(graph_of(width).content_hash)) == to_json(graph_of(width))
    assert len(dict(store.graphs())) == 3
    assert store.finished_keys(DEVICE) == {key_of(one.step) for one in measurements}


def test_what_was_disturbed_counts_as_open_until_it_is_measured_in_quiet(
    store: ProfileStore,
) -> None:
    first, second = fill(store, range(1, 3))
    assert first.step.noisy and second.step.noisy
    assert store.finished_keys(DEVICE, noisy=False) == set()
    quiet = replace(first, step=replace(first.step, noisy=False))
    store.append(quiet, graph_of(1))
    assert store.finished_keys(DEVICE, noisy=False) == {key_of(first.step)}
    assert len(store.finished_keys(DEVICE)) == 2


def test_compaction_is_idempotent_and_adds_to_what_is_there(store: ProfileStore) -> None:
    fill(store, range(1, 3))
    first = store.compact()
    before = {path: path.read_bytes() for path in first}
    assert store.compact() == []
    fill(store, range(2, 5))  # 2 is there already, with its graph
    second = store.compact()
    assert not set(first) & set(second)
    assert {path: path.read_bytes() for path in first} == before
    assert sorted(step.batch_size for step in store.steps()) == [1, 2, 3, 4]
    assert len(list(store.graphs())) == 4


def test_the_newest_of_two_measurements_of_a_workload_counts(store: ProfileStore) -> None:
    old = measurement_of(1)
    new = measurement_of(1, when="2026-02-01T00:00:00+00:00")
    store.append(new, graph_of(1))
    store.compact()
    store.append(old, graph_of(1))
    assert list(store.iter_measurements()) == [new]


def test_an_empty_store_is_empty(store: ProfileStore) -> None:
    assert store.steps() == []
    assert store.compact() == []
    assert store.finished_keys(DEVICE) == set()
    with pytest.raises(UnknownGraphError):
        store.graph("0" * 32)


def test_a_torn_journal_file_is_named_and_the_rest_stays_readable(store: ProfileStore) -> None:
    measurements = fill(store, range(1, 4))
    torn = (
        store.folder / "cpu-test--2-cores" / "journal" / f"{key_of(measurements[0].step)}.json.gz"
    )
    torn.write_bytes(torn.read_bytes()[:-20])
    with pytest.raises(StoreError, match=torn.name):
        list(store.iter_measurements())
    errors: list[StoreError] = []
    assert len(list(store.iter_measurements(on_damaged=errors.append))) == 2
    assert len(errors) == 1
    # It is not finished, so a campaign measures it again, and that repairs the file.
    assert key_of(measurements[0].step) not in store.finished_keys(DEVICE)
    with pytest.raises(StoreError, match=torn.name):
        store.compact()
    store.append(measurements[0], graph_of(1))
    assert len(store.steps()) == 3


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        *((kind, damage) for kind in ("steps", "operators") for damage in DAMAGES),
        # Without its steps file a compaction did not happen, so only the other can be missed.
        ("operators", "gone"),
    ],
)
def test_a_damaged_table_is_named_and_the_rest_stays_readable(
    store: ProfileStore, kind: str, damage: str
) -> None:
    fill(store, range(1, 3))
    first = {path.name.split("-")[0]: path for path in store.compact()}
    fill(store, range(3, 5))
    store.compact()
    path = first[kind]
    content = path.read_bytes()
    if damage == "torn":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        # The first column chunk begins behind the magic number and its page header.
        path.write_bytes(content[:60] + bytes(b ^ 0xFF for b in content[60:90]) + content[90:])
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()
    with pytest.raises(StoreError, match=path.name):
        list(store.iter_measurements())
    errors: list[StoreError] = []
    readable = list(store.iter_measurements(on_damaged=errors.append))
    assert sorted(one.step.batch_size for one in readable) == [3, 4]
    assert len(errors) == 1


def test_a_torn_graph_file_is_named(store: ProfileStore) -> None:
    fill(store, range(1, 3))
    path = next(path for path in store.compact() if path.name.startswith("graphs"))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(StoreError, match=path.name):
        store.graph(graph_of(1).content_hash)


def test_tables_without_their_steps_file_do_not_count(store: ProfileStore) -> None:
    # As a crash between the files of a compaction leaves them; the journal is still there.
    fill(store, range(1, 3))
    folder = store.folder / "cpu-test--2-cores"
    kept = {path: path.read_bytes() for path in (folder / "journal").iterdir()}
    next(path for path in store.compact() if path.name.startswith("steps")).unlink()
    (folder / "journal").mkdir()
    for path, content in kept.items():
        path.write_bytes(content)
    assert len(store.steps()) == 2
    store.compact()
    assert len(store.steps()) == 2
    assert len(list(store.graphs())) == 2


def test_a_failure_is_kept_until_the_job_is_measured(store: ProfileStore) -> None:
    one = measurement_of(1)
    failure = {"job": dict(one.step.job), "kind": "timeout", "reason": "No result within 1 s."}
    store.append_failure(key_of(one.step), accelerator=DEVICE, failure=failure)
    assert store.failures(DEVICE) == {key_of(one.step): failure}
    store.append(one, graph_of(1))
    assert store.failures(DEVICE) == {}


def test_times_are_kept_to_the_nanosecond(store: ProfileStore) -> None:
    one = measurement_of(1)
    record = dataclasses.replace(one.operators[0], time_s=1.000000001)
    store.append(dataclasses.replace(one, operators=(record,)), graph_of(1))
    store.compact()
    assert store.operators(one.step.workload_hash)[0].time_s == pytest.approx(
        1.000000001, abs=1e-12
    )


def test_figures_of_the_device_are_kept(store: ProfileStore) -> None:
    plain = measurement_of(3)
    step = dataclasses.replace(
        plain.step, execution="device_graphs", device_time_s=0.15, device_busy_s=0.05,
        reserved_memory_bytes=2e6, energy_j=12.0, mean_power_w=60.0, clock_hz=1.4e9,
        memory_clock_hz=8e8, temperature_c=61.0, power_limit_w=300.0,
        throttle_reasons=("power_cap", "thermal"),
    )  # fmt: skip
    told = dataclasses.replace(plain, step=step)
    store.append(told, graph_of(3))
    assert list(store.iter_measurements()) == [told]
    store.compact()
    (kept,) = store.iter_measurements()
    assert kept == told
    # 0.05 of 0.2 s are busy.
    assert kept.step.idle_share == pytest.approx(0.75)
    assert measurement_of(1).step.idle_share is None


def test_tables_of_before_these_columns_stay_readable(store: ProfileStore) -> None:
    fill(store, range(1, 3))
    store.compact()
    (path,) = store.folder.rglob("steps-*.parquet")
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(sorted(ADDED_COLUMNS)), path, write_page_checksum=True)
    assert [step.batch_size for step in store.steps()] == [1, 2]
    assert store.steps()[0].energy_j is None


def test_the_key_of_old_records_stays_and_another_execution_has_its_own() -> None:
    plain = measurement_of(1).step
    # Written down when there was no execution yet.
    document = {"job": dict(plain.job), "accelerator": DEVICE, "threads": 2}
    text = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    assert key_of(plain) == hashlib.sha256(text).hexdigest()[:32]
    assert key_of(dataclasses.replace(plain, execution="provider=cuda")) != key_of(plain)


@pytest.mark.parametrize("kept", ["measurement", "failure", "table"])
def test_a_full_disk_is_said_with_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    """Errors of writing bear no name of a file themselves."""
    store = ProfileStore(tmp_path)
    if kept == "table":
        store.append(measurement_of(1), graph_of(1))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable, "_sync", full)
    with pytest.raises(StoreError, match="cannot be written: No space left on device. Free some"):
        if kept == "measurement":
            store.append(measurement_of(1), graph_of(1))
        elif kept == "failure":
            store.append_failure("k", accelerator=DEVICE, failure={})
        else:
            store.compact()
