"""A name that no model has is refused before anything is loaded that could build one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from perfmodel.errors import UnknownModelError
from perfmodel.estimator.captures.capture_pool import CapturePool
from perfmodel.estimator.captures.turns import Turns
from perfmodel.estimator.jobs.capture_terms import without_captures
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.graph.hub_models.spoken_names import listed_timm_names
from perfmodel.graph.job import Job
from perfmodel.zoo.libraries import import_timm
from perfmodel.zoo.name_check import check_timm_name

UNKNOWN = {
    "foo/bar": "facebook/bart-base",
    "timm/rsenet50": "timm/resnet50",
    "zoo/mlq": "zoo/mlp",
    "zoo/resnet50": "zoo/resnet50-v1.5",
    "zoo/llama3-8b": "meta-llama/Llama-3.1-8B",
}

WITHOUT_LIBRARIES = """
import sys
from click.testing import CliRunner
from perfmodel.cli import cli
for name in sys.argv[1:]:
    said = CliRunner().invoke(cli, ["predict", name, "--on", "A100"])
    print(said.exit_code, said.stderr.splitlines()[-1])
print(sorted({"torch", "timm", "transformers"} & sys.modules.keys()))
"""


@pytest.mark.parametrize(("name", "meant"), UNKNOWN.items())
def test_the_service_refuses_it_where_nobody_waits_for_captures(name: str, meant: str) -> None:
    pool = CapturePool(Turns(1))
    library = GraphLibrary(capture=pool, check=pool.check)
    with pytest.raises(UnknownModelError) as caught:
        without_captures(library.step, Job(model=name))
    assert meant in caught.value.did_you_mean


def test_the_command_loads_no_library_for_them() -> None:
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBRARIES, *UNKNOWN],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    *said, libraries = run.stdout.splitlines()
    assert libraries == "[]" and len(said) == len(UNKNOWN)
    for name, line in zip(UNKNOWN, said, strict=True):
        assert line.startswith("2 ") and f"Unknown model {name!r}. Did you mean" in line


def test_every_name_of_the_installed_timm_passes() -> None:
    pytest.importorskip("torch")
    timm = import_timm()
    registered = timm.models._registry._model_entrypoints  # deprecated names too
    assert len(registered) > len(timm.list_models())
    for name in registered:
        check_timm_name(name)
    check_timm_name("resnet50.a1_in1k")
    # Those that are listed are suggested where timm is not installed too.
    assert listed_timm_names() <= set(registered)
