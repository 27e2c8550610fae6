"""Job lists in files."""

from pathlib import Path

import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.graph.job import Job, stated_fields
from perfmodel.graph.job_form import stated_job
from perfmodel.profilers.job_list import read_jobs
from perfmodel.profilers.wire import workload_key
from perfmodel.types import Compiler, Mode


def test_a_grid_is_every_combination_of_its_lists(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(
        """
[defaults]
mode = ["training", "inference"]

[[workloads]]
model = "timm/resnet18"
model_kwargs = { img_size = 64 }
batch_size = [1, 4]

[[workloads]]
hf_config = "tiny"
batch_size = 2
mode = "inference"
compiler = "onnxruntime"

[hf_configs.tiny]
model_type = "bert"
hidden_size = 64
"""
    )
    jobs = read_jobs(path)
    # 2 modes x 2 batch sizes + 1.
    assert len(jobs) == 5
    assert [(job.mode, job.batch_size) for job in jobs[:4]] == [
        (mode, size) for mode in (Mode.TRAINING, Mode.INFERENCE) for size in (1, 4)
    ]
    assert jobs[4].hf_config == {"model_type": "bert", "hidden_size": 64}
    assert jobs[4].compiler is Compiler.ONNXRUNTIME


def test_the_list_in_the_documentation_is_one(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "campaigns.md"
    path = tmp_path / "jobs.toml"
    path.write_text(page.read_text().split("```toml\n")[1].split("```")[0])
    jobs = read_jobs(path)
    assert len(jobs) == 5
    # The smallest of each model; what cannot be built is found when it is measured, not before.
    for job in (jobs[0], jobs[3]):
        assert capture_in_process(job).graph.nodes


def test_lines_hold_one_job_each(tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_text('{"model": "zoo/mlp", "batch_size": 3}\n\n{"model": "zoo/ncf"}\n')
    assert read_jobs(path) == [Job(model="zoo/mlp", batch_size=3), Job(model="zoo/ncf")]


def test_a_byte_order_mark_is_no_part_of_a_list(tmp_path: Path) -> None:
    for name, text in (("a.jsonl", '{"model": "zoo/mlp"}'),
                       ("a.toml", '[[workloads]]\nmodel = "zoo/mlp"')):  # fmt: skip
        (tmp_path / name).write_text(text, encoding="utf-8-sig")
        assert len(read_jobs(tmp_path / name)) == 1


def test_a_list_that_is_not_there_or_no_text_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"jobs\.toml: No such file or directory\.$"):
        read_jobs(tmp_path / "jobs.toml")
    path = tmp_path / "a.jsonl"
    path.write_text('{"model": "zoo/mlp"}', encoding="utf-16")
    with pytest.raises(InvalidInputError, match="no text in UTF-8"):
        read_jobs(path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", '{"model": "zoo/mlp"}\n{"model": ', "line 2"),
        ("a.jsonl", '{"model": "zoo/mlp"}\n{"modle": "zoo/mlp"}', r"a\.jsonl, line 2: .*modle"),
        (
            "a.toml",
            '[[workloads]]\nmodel = "zoo/mlp"\nbatch_size = "x"\n',
            "workload 1: batch_size",
        ),
        ("a.jsonl", '{"model": "zoo/mlp", "mode": "guess"}', "training, inference"),
        ("a.jsonl", "[1]", "line 1: a job must be an object"),
        ("a.toml", "[[workloads]\n", "no TOML"),
        ("a.toml", "workloads = [1]\n", "workload 1: a workload must be an object"),
        ("a.toml", "[workloads]\nmodel = 'zoo/mlp'\n", r"under \[\[workloads\]\], one each"),
        ("a.toml", "defaults = 3\n", "defaults must be an object; got 3"),
        ("a.toml", "hf_configs = 3\n", "hf_configs must be an object"),
        ("a.toml", "[[jobs]]\n", "unknown table 'jobs'"),
        ("a.toml", '[[workloads]]\nhf_config = "none"\n', "hf_configs.none"),
    ],
)
def test_a_list_that_cannot_be_read_says_why(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=message):
        read_jobs(path)


def test_an_absent_list_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="Cannot read"):
        read_jobs(tmp_path / "none.toml")


def test_a_job_survives_the_way_through_a_dict() -> None:
    job = Job(hf_config={"model_type": "bert"}, mode=Mode.TRAINING, optimizer="adamw")
    assert stated_job(stated_fields(job)) == job


def test_the_key_tells_apart_what_is_measured_apart() -> None:
    base = stated_fields(Job(model="zoo/mlp", batch_size=2))
    key = workload_key(base, accelerator="cpu", threads=2)
    reordered = dict(reversed(list(base.items())))
    assert workload_key(reordered, accelerator="cpu", threads=2) == key
    assert workload_key({**base, "batch_size": 4}, accelerator="cpu", threads=2) != key
    assert workload_key(base, accelerator="other", threads=2) != key
    assert workload_key(base, accelerator="cpu", threads=1) != key


def test_the_shipped_campaign_is_wide_enough() -> None:
    path = Path(__file__).parents[2] / "profiles" / "campaigns" / "cpu-2core.toml"
    jobs = read_jobs(path)
    keys = {workload_key(stated_fields(job), accelerator="cpu", threads=2) for job in jobs}
    assert len(keys) == len(jobs) >= 260
    models = {(job.label, str(job.model_kwargs)) for job in jobs}
    assert len(models) >= 66
    assert sum(job.compiler is Compiler.ONNXRUNTIME for job in jobs) >= 10
