"""ONNX files of a user: made ready, given inputs, and really run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_files import numbers, one_node, onnx_file, tensor_info, weight

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import MeasurementError
from perfmodel.profilers.measure import measure_job
from perfmodel.profilers.onnx_file import OnnxFile, file_job
from perfmodel.profilers.run import MeasureSettings
from perfmodel.profilers.steps.made_inputs import make_inputs
from perfmodel.profilers.steps.stored_file import read_stored
from perfmodel.profilers.timing import TimingPolicy
from perfmodel.records import Measurement

QUICK = MeasureSettings(
    threads=1, policy=TimingPolicy(known_samples=5, max_samples=6, attempts=1), profiled_steps=1
)
DEVICE = Catalog.default().get("A100-SXM4-80GB")
IDS = TensorProto.INT64
#: Rows of the table that ids look up, and of the one that segments look up.
ROWS, SEGMENTS = 7, 3


def embedding() -> onnx.ModelProto:
    """Return two look-ups, their sum times a weight, and a mask; only the products have a name."""
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["whole"], to=IDS),
        helper.make_node("Gather", ["words", "whole"], ["a"]),
        helper.make_node("Gather", ["segments", "token_type_ids"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("MatMul", ["c", "w"], ["d"], name="product"),
        helper.make_node("Cast", ["attention_mask"], ["m"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["m", "last"], ["mm"]),
        helper.make_node("Mul", ["d", "mm"], ["y"]),
    ]
    inputs = [
        tensor_info("input_ids", ["batch", "seq"], TensorProto.INT32),
        tensor_info("token_type_ids", ["batch", "seq"], IDS),
        tensor_info("attention_mask", ["batch", "seq"], IDS),
    ]
    weights = [weight("words", ROWS, 4), weight("segments", SEGMENTS, 4), weight("w", 4, 2)]
    model = onnx_file(nodes, inputs, [tensor_info("y", None)], [*weights, numbers("last", [-1])])
    model.ir_version = 8
    return model


@pytest.fixture
def file(tmp_path: Path) -> OnnxFile:
    path = tmp_path / "bert.onnx"
    onnx.save(embedding(), path)
    return OnnxFile(path=path, dimensions={"seq": 50}, batch_size=20)


def measured(file: OnnxFile, compiler: str) -> Measurement:
    job = file_job(file, {"compiler": compiler})
    settings = replace(QUICK, files={str(job.graph): file})
    measurement, graph = measure_job(job, DEVICE, settings)
    assert graph.content_hash == job.graph == measurement.step.graph_hash
    assert measurement.step.job["graph"] == job.graph
    return measurement


def test_inputs_are_made_by_what_is_looked_up_with_them(file: OnnxFile) -> None:
    content, feeds = read_stored(file)
    assert {name: (one.shape, one.dtype) for name, one in feeds.items()} == {
        "input_ids": ((20, 50), np.dtype("int32")),
        "token_type_ids": ((20, 50), np.dtype("int64")),
        "attention_mask": ((20, 50), np.dtype("int64")),
    }
    # A thousand of each: every row is met.
    assert set(feeds["input_ids"].flat) == set(range(ROWS))
    assert set(feeds["token_type_ids"].flat) == set(range(SEGMENTS))
    assert set(feeds["attention_mask"].flat) == {1}
    bound = onnx.load_from_string(content).graph
    assert [one.dim_value for one in bound.input[0].type.tensor_type.shape.dim] == [20, 50]
    assert bound.node[1].name == "Gather_1" and bound.node[4].name == "product"
    assert read_stored(file)[1]["input_ids"].tolist() == feeds["input_ids"].tolist()


def test_numbers_are_normal_and_of_their_type() -> None:
    half = TensorProto.FLOAT16
    graph = onnx.load_from_string(one_node("Relu", [[100, 100]], kind=half)).graph
    made = make_inputs(graph, {"x0": (100, 100)})["x0"]
    assert made.dtype == np.float16
    assert abs(float(made.mean())) < 0.05 and abs(float(made.std()) - 1) < 0.05
    truth = onnx.load_from_string(one_node("Not", [[3]], kind=TensorProto.BOOL)).graph
    assert make_inputs(truth, {"x0": (3,)})["x0"].tolist() == [True] * 3


def test_inputs_of_types_that_numpy_lacks_are_not_made() -> None:
    graph = onnx.load_from_string(one_node("Relu", [[2, 2]], kind=TensorProto.BFLOAT16)).graph
    with pytest.raises(MeasurementError, match=r"of its type \(bfloat16\) numpy makes no numbers"):
        make_inputs(graph, {"x0": (2, 2)})


@pytest.mark.parametrize("compiler", ["onnxruntime", "openvino"])
def test_a_file_is_run_as_it_is(file: OnnxFile, compiler: str) -> None:
    found = measured(file, compiler)
    step = found.step
    assert (step.model, step.family, step.batch_size) == ("onnx/bert", "bert", 20)
    assert step.compiler == compiler
    assert step.step_time_s > 0
    assert found.operators


def test_weights_beside_a_file_are_run_too(file: OnnxFile) -> None:
    beside = replace(file, path=file.path.with_name("beside.onnx"))
    model = embedding()
    for one in model.graph.initializer[:3]:
        one.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(one), one.name))
    onnx.save_model(
        model, beside.path, save_as_external_data=True, location="data", size_threshold=0
    )
    assert measured(beside, "onnxruntime").step.graph_hash == file.capture().content_hash
    file.path.with_name("data").unlink()
    with pytest.raises(MeasurementError, match=r"weights of beside\.onnx lie in another file"):
        read_stored(beside)


def test_a_file_without_weights_is_not_run(file: OnnxFile) -> None:
    model = embedding()
    model.graph.initializer[2].ClearField("float_data")
    onnx.save(model, file.path)
    with pytest.raises(MeasurementError, match=r"without its weights \('w' is empty\)"):
        read_stored(file)


def test_a_file_that_changed_meanwhile_is_not_taken_for_what_it_was(file: OnnxFile) -> None:
    job = file_job(file, {})
    model = embedding()
    model.graph.node[3].op_type = "Mul"
    onnx.save(model, file.path)
    with pytest.raises(MeasurementError, match="has changed since it was read"):
        measure_job(job, DEVICE, replace(QUICK, files={str(job.graph): file}))


def test_what_the_engine_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    path = tmp_path / "outside.onnx"
    nodes = [
        helper.make_node("Add", ["ids", "far"], ["x"]),
        helper.make_node("Gather", ["table", "x"], ["y"]),
    ]
    model = onnx_file(
        nodes, [tensor_info("ids", [3], IDS)], [tensor_info("y", None)],
        [weight("table", ROWS, 4), numbers("far", [100])],
    )  # fmt: skip
    model.ir_version = 8
    onnx.save(model, path)
    with pytest.raises(MeasurementError, match=r"cannot run onnx/outside: .* out of data bounds"):
        measured(OnnxFile(path=path), "onnxruntime")
    model.ir_version = 1_000
    onnx.save(model, path)
    with pytest.raises(MeasurementError, match="FAIL : Unsupported model IR version: 1000"):
        measured(OnnxFile(path=path), "onnxruntime")
    with pytest.raises(MeasurementError, match="Device graphs are recorded of PyTorch steps"):
        job = file_job(OnnxFile(path=path), {})
        files = {str(job.graph): OnnxFile(path=path)}
        measure_job(job, DEVICE, replace(QUICK, files=files, device_graphs=True))


def test_openvino_measures_no_file_in_16_bits(tmp_path: Path) -> None:
    path, half = tmp_path / "half.onnx", TensorProto.FLOAT16
    path.write_bytes(one_node("MatMul", [[8, 4], [4, 2]], kind=half, result=half))
    with pytest.raises(MeasurementError, match="In OpenVINO fp32 is profiled"):
        measured(OnnxFile(path=path), "openvino")
