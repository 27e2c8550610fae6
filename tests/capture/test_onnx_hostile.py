"""Files from anybody: each is refused with its reason, none ends the process or holds it up."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import textwrap

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from often import often
from onnx import TensorProto, helper
from onnx_files import numbers, one_node, onnx_file, tensor_info, weight

from perfmodel.capture.onnx import OnnxLimits, capture_onnx
from perfmodel.errors import PerfModelError, UnsupportedOnnxError
from perfmodel.graph.ir import Graph
from perfmodel.types import Mode

X, Y = tensor_info("x", [2, 4]), tensor_info("y", None)


@pytest.fixture(autouse=True)
def told_how_long(slowest, monkeypatch):
    """Time each capture."""

    plain = capture_onnx

    def timed(*args, **options):
        with slowest.timing():
            return plain(*args, **options)

    monkeypatch.setitem(globals(), "capture_onnx", timed)


def refused(data, pattern, **options):
    with pytest.raises(UnsupportedOnnxError, match=pattern) as refusal:
        capture_onnx(data, **options)
    return refusal.value


def small_network():
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["a"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["a", "s", "o", "m", "v"], ["b"], name="norm"),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Reshape", ["c", "shape"], ["d"]),
        helper.make_node("MatMul", ["d", "w"], ["y"]),
    ]
    weights = [
        weight("k", 4, 3, 3, 3), *(weight(n, 4) for n in "somv"), weight("w", 64, 5),
        numbers("shape", [0, -1]),
    ]  # fmt: skip
    model = onnx_file(nodes, [tensor_info("x", ["n", 3, 4, 4])], [Y], weights)
    return model.SerializeToString()


NETWORK = small_network()


def test_the_network_that_is_mutilated_below_is_sound():
    graph = capture_onnx(NETWORK, batch_size=2, mode=Mode.TRAINING)
    assert [n.op for n in graph.nodes][:3] == ["convolution", "native_batch_norm", "relu"]


@pytest.mark.parametrize("data", [b"", b"\x00", b"not an onnx file", b"\xff" * 100, b"PK\x03\x04"])
def test_garbage_is_no_onnx_file(data):
    refused(data, "no complete ONNX file|no ONNX file|damaged")


def test_every_truncation_is_refused():
    for length in range(len(NETWORK)):
        try:
            capture_onnx(NETWORK[:length], batch_size=2)
        except UnsupportedOnnxError:
            continue
        pytest.fail(f"the first {length} of {len(NETWORK)} bytes were taken for a model")


def test_truncation_is_named():
    refused(NETWORK[: len(NETWORK) // 2], r"no complete ONNX file: .* needs \d+ bytes, \d+ are")


def test_mutations_never_escape_as_another_error(record_property):
    rng = random.Random(7)
    outcomes = {"graph": 0, "refused": 0}
    for _ in range(5 * often(120)):
        data = bytearray(NETWORK)
        for _ in range(rng.choice([1, 2, 8])):
            place = rng.randrange(len(data))
            change = rng.randrange(3)
            if change == 0:
                data[place] = rng.randrange(256)
            elif change == 1:
                del data[place]
            else:
                data.insert(place, rng.randrange(256))
        try:
            graph = capture_onnx(bytes(data), batch_size=2, mode=rng.choice(list(Mode)))
            assert isinstance(graph, Graph)
            outcomes["graph"] += 1
        except PerfModelError:
            outcomes["refused"] += 1
    record_property("broken ONNX files", sum(outcomes.values()))
    assert min(outcomes.values()) > sum(outcomes.values()) / 12


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused(data):
    with pytest.raises(UnsupportedOnnxError):
        capture_onnx(data)


def external(name="secret"):
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    return tensor


def in_initializer():
    return onnx_file([helper.make_node("Relu", ["x"], ["y"])], [X], [Y], [external()])


def in_unmarked_initializer():
    model = in_initializer()
    model.graph.initializer[0].data_location = TensorProto.DEFAULT
    return model


def in_attribute():
    return onnx_file([helper.make_node("Constant", [], ["y"], value=external())], [], [Y])


def in_attribute_list():
    node = helper.make_node("Relu", ["x"], ["y"])
    node.attribute.add(name="many", type=onnx.AttributeProto.TENSORS).tensors.append(external())
    return onnx_file([node], [X], [Y])


def in_attribute_of_another_type():
    node = helper.make_node("Relu", ["x"], ["y"])
    node.attribute.add(name="lie", type=onnx.AttributeProto.INT, i=1).t.CopyFrom(external())
    return onnx_file([node], [X], [Y])


def in_sparse_initializer():
    model = onnx_file([helper.make_node("Relu", ["x"], ["y"])], [X], [Y])
    sparse = model.graph.sparse_initializer.add(dims=[4])
    sparse.values.CopyFrom(external())
    sparse.indices.CopyFrom(numbers("i", [0]))
    return model


def in_subgraph():
    constant = helper.make_node("Constant", [], ["z"], value=external())
    branch = helper.make_graph([constant], "b", [], [tensor_info("z", None)])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    return onnx_file([node], [tensor_info("c", [], TensorProto.BOOL)], [Y])


def in_initializer_of_subgraph():
    branch = helper.make_graph([], "b", [], [tensor_info("secret", None)], [external()])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    return onnx_file([node], [tensor_info("c", [], TensorProto.BOOL)], [Y])


def in_function():
    body = [helper.make_node("Constant", [], ["b"], value=external())]
    function = helper.make_function("own", "F", [], ["b"], body, [helper.make_opsetid("", 17)])
    return onnx_file([helper.make_node("Relu", ["x"], ["y"])], [X], [Y], functions=[function])


def in_training_information():
    model = onnx_file([helper.make_node("Relu", ["x"], ["y"])], [X], [Y])
    model.training_info.add().algorithm.initializer.append(external())
    return model


@pytest.mark.parametrize(
    "make",
    [
        in_initializer, in_unmarked_initializer, in_attribute, in_attribute_list,
        in_attribute_of_another_type, in_sparse_initializer, in_subgraph,
        in_initializer_of_subgraph, in_function, in_training_information,
    ],
)  # fmt: skip
def test_external_data_is_never_opened_wherever_it_hides(make, opened):
    with contextlib.suppress(UnsupportedOnnxError):  # where a value decides, it is not there
        capture_onnx(make().SerializeToString())
    assert opened and not [path for path in opened if "passwd" in path]


def test_a_file_with_external_data_is_the_graph_of_the_whole_file(tmp_path, opened):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    raw = onnx.numpy_helper.from_array(np.full((4, 8), 0.5, np.float32), "w")
    whole = onnx_file(nodes, [X], [Y], [raw])
    expected = capture_onnx(whole.SerializeToString())
    path = tmp_path / "model.onnx"
    onnx.save_model(
        whole, path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    os.mkfifo(tmp_path / "pipe")  # whoever opens it waits for ever
    (tmp_path / "weights.bin").unlink()
    (tmp_path / "pipe").rename(tmp_path / "weights.bin")
    opened.clear()
    assert capture_onnx(path).content_hash == expected.content_hash
    assert [one for one in opened if one.endswith("model.onnx")]
    assert not [one for one in opened if "weights" in one]


_OPENED = []
sys.addaudithook(lambda event, args: _OPENED.append(str(args[0])) if event == "open" else None)


@pytest.fixture
def opened(tmp_path):
    """Return the paths that this process opened since; one at least."""
    _OPENED.clear()
    (tmp_path / "first").write_text("")
    return _OPENED


def test_cycles_are_refused():
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="second"),
    ]
    refused(onnx_file(nodes, [X], [Y]).SerializeToString(), "cycle through 'first', 'second'")


def test_a_name_is_produced_once():
    nodes = [helper.make_node(op, ["x"], ["y"], name=op) for op in ("Relu", "Tanh")]
    refused(onnx_file(nodes, [X], [Y]).SerializeToString(), "'y' .* produced twice.*'Tanh'")
    twice = onnx_file([], [X], [Y], [weight("w", 2), weight("w", 2)])
    refused(twice.SerializeToString(), "Initializer 'w' stands twice")


def test_a_missing_tensor_is_named():
    data = onnx_file([helper.make_node("Relu", ["ghost"], ["y"], name="n")], [X], [Y])
    refused(data.SerializeToString(), "'ghost' is read by node 'n' .* nothing produces it")


@pytest.mark.parametrize("shape", [[2**20, 2**20], [2**40, 4], [2**62, 2**62]])
def test_a_few_bytes_that_declare_terabytes_are_refused(shape):
    huge = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=shape)
    stored = onnx_file([helper.make_node("Relu", ["w"], ["y"])], [], [Y], [huge])
    assert len(stored.SerializeToString()) < 120
    refused(stored.SerializeToString(), r"'w' .* declares the shape \[.* more than 1,099,511")
    given_ = onnx_file([helper.make_node("Relu", ["x"], ["y"])], [tensor_info("x", shape)], [Y])
    refused(given_.SerializeToString(), "'x' .* more than 1,099,511")


def test_a_tensor_that_only_grows_on_the_way_is_refused_too():
    data = one_node("Expand", [(1, 1)], [numbers("s", [2**30, 2**30])])
    refused(data, r"leads to a tensor of shape \[1073741824, 1073741824\]")
    data = one_node("ConstantOfShape", [], [numbers("s", [2**31, 2**31])])
    refused(data, "leads to a tensor of shape")


def test_stored_shapes_are_not_negative():
    bad = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[-2, 3])
    data = onnx_file([helper.make_node("Relu", ["w"], ["y"])], [], [Y], [bad])
    refused(data.SerializeToString(), r"'w' .* has the shape \[-2, 3\]; every extent")


@pytest.mark.parametrize("count", [3, 5])
def test_payload_and_shape_must_agree(count):
    liar = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[4], raw_data=b"\0\0\0\0" * count
    )
    data = onnx_file([helper.make_node("Relu", ["w"], ["y"])], [], [Y], [liar])
    refused(data.SerializeToString(), rf"declares \[4\] float32 \(16 bytes\) but holds {4 * count}")


def test_weights_may_be_stripped():
    bare = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 5])
    data = onnx_file([helper.make_node("MatMul", ["x", "w"], ["y"])], [X], [Y], [bare])
    assert capture_onnx(data.SerializeToString()).parameter_count == 20


def test_deep_nesting_is_refused():
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "leaf", [], [Y])
    for level in range(20):
        node = helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)
        graph = helper.make_graph([node], f"level{level}", [], [Y])
        if level > 8:  # one branch only, or the file doubles at each level
            node.attribute.pop()
            graph = helper.make_graph([node], f"level{level}", [], [Y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    limits = OnnxLimits(max_nesting=6)
    refused(model.SerializeToString(), "nests subgraphs more than 6 deep", limits=limits)


def nested(field, payload, levels):
    for _ in range(levels):
        size, prefix = len(payload), bytearray([field << 3 | 2])
        while size > 127:
            prefix.append(size & 127 | 128)
            size >>= 7
        payload = bytes([*prefix, size]) + payload
    return payload


def test_nesting_beyond_any_recursion_limit_is_refused():
    payload = b""
    for _ in range(3000):  # attribute.g of node.attribute of graph.node
        payload = nested(1, nested(5, nested(6, payload, 1), 1), 1)
    refused(b"\x42\x02\x10\x11" + nested(7, payload, 1), "nests subgraphs|no operator type")


def test_large_attributes_are_refused():
    data = one_node("Transpose", [(2, 3)], perm=list(range(100_000)))
    refused(data, "Attribute 'perm' .* elements; at most 65,536 are read")
    data = one_node("Einsum", [(2, 3)], equation="a" * 5_000)
    refused(data, "name or string attribute of 5,000 bytes")


def test_many_attributes_are_refused():
    data = one_node("Relu", [(2, 3)], **{f"a{i}": 1 for i in range(300)})
    refused(data, "300 attributes of node 0")


def test_too_many_nodes_are_refused():
    nodes = [helper.make_node("Relu", [f"x{i}"], [f"x{i + 1}"]) for i in range(13_000)]
    data = onnx_file(nodes, [tensor_info("x0", [2])], [tensor_info("x13000", [2])])
    refused(data.SerializeToString(), "13,000 nodes; at most 12,000")


def test_millions_of_empty_fields_are_refused():
    opset = b"\x42\x02\x10\x11"
    refused(opset + nested(7, b"\x0a\x00" * 3_000_000, 1), "more than 500,000 protobuf fields")


def test_bytes_are_capped():
    limits = OnnxLimits(max_file_bytes=100)
    refused(NETWORK, "at most 100 are read", limits=limits)


def test_a_split_into_endless_pieces_is_refused():
    data = onnx_file(
        [helper.make_node("SplitToSequence", ["x"], ["s"], name="n"),
         helper.make_node("SequenceLength", ["s"], ["y"])],
        [tensor_info("x", [2**36])], [Y],
    )  # fmt: skip
    refused(data.SerializeToString(), "takes an axis of extent 68,719,476,736 apart")


@pytest.mark.parametrize("opset", [0, 99])
def test_unknown_opsets_are_reported(opset):
    data = onnx_file([helper.make_node("Relu", ["x"], ["y"])], [X], [Y], opset=opset)
    refused(data.SerializeToString(), f"imports opset {opset} of the standard operators; 1 to 28")


def test_unknown_domains_are_reported():
    data = onnx_file([helper.make_node("F", ["x"], ["y"], name="n", domain="acme")], [X], [Y])
    refused(data.SerializeToString(), r"'n' \(F\) is of the domain 'acme', which .* not import")


def test_unsupported_element_types_are_reported():
    text = TensorProto(name="w", data_type=TensorProto.STRING, dims=[1], string_data=[b"a"])
    data = onnx_file([helper.make_node("Relu", ["x"], ["y"])], [X], [Y], [text])
    refused(data.SerializeToString(), "'w' of the ONNX file has element type 8")


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "reason"),
    [
        ("Conv", [(1, 3, 8, 8), (4, 2, 3, 3)], {}, "in 1 groups"),
        ("Conv", [(1, 3, 8, 8), (4, 3, 3, 3)], {"strides": [0, 0]}, r"has strides \[0, 0\]"),
        ("Conv", [(1, 3, 2, 2), (4, 3, 3, 3)], {}, "window larger than its data"),
        ("Conv", [(1, 3, 8, 8), (4, 3, 3, 3)], {"group": 0}, "in 0 groups"),
        ("MatMul", [(2, 3), (4, 5)], {}, "inner extents differ"),
        ("Add", [(2, 3), (4,)], {}, "do not broadcast"),
        ("Transpose", [(2, 3)], {"perm": [0, 0]}, "permutes 2 dimensions"),
        ("Softmax", [(2, 3)], {"axis": 7}, "has axis 7"),
        ("Concat", [(2, 3), (3, 4)], {"axis": 0}, "joins shapes"),
        ("Split", [(2, 3)], {"axis": 5}, "has axis 5"),
        ("LeakyRelu", [(2, 3)], {"alpha": float("nan")}, "has no finite attribute 'alpha'"),
    ],
)
def test_arguments_that_do_not_fit_name_the_node(op, shapes, attrs, reason):
    error = refused(one_node(op, shapes, **attrs), reason)
    assert f"ONNX node 'node' ({op})" in error.message


def test_a_damaged_file_on_disk_is_refused_and_closed(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(NETWORK[:-5])
    refused(path, "no complete ONNX file")
    path.write_bytes(NETWORK)
    assert capture_onnx(path, batch_size=2).source["model"] == "model.onnx"
    refused(tmp_path / "absent.onnx", "cannot be read: No such file")
    path.write_bytes(b"")
    refused(path, "no ONNX file")


def test_the_heaviest_file_stays_within_half_a_gigabyte(slowest):
    # As many nodes as the limits allow, each with a computed constant of the largest size.
    program = textwrap.dedent("""
        import time
        from pathlib import Path
        from onnx import TensorProto, helper
        from perfmodel.capture.onnx import capture_onnx
        first = helper.make_tensor("v", TensorProto.INT64, [1024], list(range(1024)))
        nodes = [helper.make_node("Constant", [], ["x0"], value=first)]
        nodes += [helper.make_node("Mul", [f"x{i}", "x0"], [f"x{i + 1}"]) for i in range(11_900)]
        out = helper.make_tensor_value_info("x11900", TensorProto.INT64, [1024])
        graph = helper.make_graph(nodes, "g", [], [out])
        data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        data = data.SerializeToString()
        start = time.process_time()
        capture_onnx(data)
        seconds = time.process_time() - start
        # ru_maxrss would count the process that started this one.
        status = Path("/proc/self/status").read_text()
        print(seconds, status.partition("VmHWM:")[2].split()[0])
    """)

    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300
    ).stdout.split()
    assert int(out[1]) < 512 * 1024
    slowest.note(float(out[0]))
