"""The job that stands for an ONNX file, and lists that name such files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper
from onnx_files import one_node, onnx_file, tensor_info, weight

from perfmodel.capture.onnx import capture_onnx
from perfmodel.errors import InvalidInputError, UnsupportedOnnxError
from perfmodel.profilers.job_list import read_jobs, read_jobs_and_files
from perfmodel.profilers.onnx_file import OnnxFile, file_job
from perfmodel.profilers.run import MeasureSettings
from perfmodel.types import Compiler, Mode, Precision


@pytest.fixture
def product(tmp_path: Path) -> OnnxFile:
    """Return a file of one product, 8 samples of 4 numbers."""
    path = tmp_path / "product.onnx"
    path.write_bytes(one_node("MatMul", [[8, 4]], [weight("w", 4, 2)]))
    return OnnxFile(path=path)


def test_a_job_of_a_file_is_the_inference_of_its_graph(product: OnnxFile) -> None:
    job = file_job(product, {"precision": None, "frozen": ()})
    assert job.graph == capture_onnx(product.path).content_hash
    assert (job.mode, job.batch_size, job.precision) == (Mode.INFERENCE, 8, Precision.FP32)
    assert job.compiler is Compiler.ONNXRUNTIME
    assert product.model == "onnx/product"


def test_extents_are_part_of_the_graph(tmp_path: Path) -> None:
    path = tmp_path / "open.onnx"
    relu = helper.make_node("Relu", ["x"], ["y"])
    model = onnx_file([relu], [tensor_info("x", ["n", "k"])], [tensor_info("y", None)])
    path.write_bytes(model.SerializeToString())
    short = OnnxFile(path=path, dimensions={"k": 3}, batch_size=2)
    long = OnnxFile(path=path, dimensions={"k": 5, "n": 2})
    jobs = [file_job(file, {"batch_size": file.batch_size}) for file in (short, long)]
    assert [job.batch_size for job in jobs] == [2, 2]
    assert jobs[0].graph != jobs[1].graph
    with pytest.raises(UnsupportedOnnxError, match="leaves 'n', 'k' open"):
        file_job(OnnxFile(path=path), {})


def test_a_file_in_16_bits_is_measured_in_16_bits(tmp_path: Path) -> None:
    path = tmp_path / "half.onnx"
    half = TensorProto.FLOAT16
    path.write_bytes(one_node("MatMul", [[8, 4], [4, 2]], kind=half, result=half))
    assert file_job(OnnxFile(path=path), {}).precision is Precision.FP16
    with pytest.raises(InvalidInputError, match="computes in fp16, and files are measured as"):
        file_job(OnnxFile(path=path), {"precision": "bf16"})


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"mode": "training"}, "measured in inference alone; got the mode 'training'"),
        ({"compiler": "inductor"}, "inductor runs no ONNX files"),
        ({"optimizer": "adam"}, "optimizer does not apply to product.onnx"),
        ({"precision": "fp16"}, "computes in fp32"),
    ],
)
def test_what_a_file_says_itself_is_not_said_of_it(
    product: OnnxFile, stated: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        file_job(product, stated)


def test_processes_that_measure_are_told_the_files(product: OnnxFile) -> None:
    settings = MeasureSettings(threads=1, files={"hash": product})
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert hash(settings) == hash(MeasureSettings(threads=1))


def test_a_list_names_files_beside_it(product: OnnxFile) -> None:
    path = product.path.with_name("list.toml")
    path.write_text(
        """
[defaults]
batch_size = 8

[[workloads]]
model = ["product.onnx", "zoo/mlp"]

[[workloads]]
model = "product.onnx"
compiler = "openvino"
dimensions = {}
"""
    )
    (first, file), (named, nothing), (second, again) = read_jobs_and_files(path, {})
    assert nothing is None and named.model == "zoo/mlp"
    assert file == again == OnnxFile(path=product.path, batch_size=8)
    assert first.graph == second.graph
    assert (first.compiler, second.compiler) == (Compiler.ONNXRUNTIME, Compiler.OPENVINO)
    # Dimensions of the command line are those of files without their own.
    with pytest.raises(InvalidInputError, match="workload 1: .* no dimension 'seq'"):
        read_jobs_and_files(path, {"seq": 3})
    with pytest.raises(InvalidInputError, match=r"names product\.onnx\. Only `perfmodel profile`"):
        read_jobs(path)


def test_dimensions_of_a_list_are_an_object(product: OnnxFile) -> None:
    path = product.path.with_name("list.jsonl")
    path.write_text('{"model": "product.onnx", "dimensions": 3}\n')
    with pytest.raises(InvalidInputError, match="dimensions"):
        read_jobs_and_files(path, {})
