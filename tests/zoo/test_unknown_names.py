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
sys.argv = ["perfmodel", "predict", {model!r}, "--on", "A100"]
from perfmodel.cli.app import main
try:
    main()
finally:
    print(sorted({{"torch", "timm", "transformers"}} & sys.modules.keys()))
"""


@pytest.mark.parametrize(("name", "meant"), UNKNOWN.items())
def test_the_service_refuses_it_where_nobody_waits_for_captures(name: str, meant: str) -> None:
    pool = CapturePool(Turns(1))
    library = GraphLibrary(capture=pool, check=pool.check)
    with pytest.raises(UnknownModelError) as caught:
        without_captures(library.step, Job(model=name))
    assert meant in caught.value.did_you_mean


@pytest.mark.parametrize("name", UNKNOWN)
def test_the_command_loads_no_library_for_it(name: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBRARIES.format(model=name)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (run.returncode, run.stdout.strip()) == (2, "[]")
    assert f"Unknown model {name!r}. Did you mean" in run.stderr


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
