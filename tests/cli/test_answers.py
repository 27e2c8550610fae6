"""``predict``, ``compare`` and ``capture`` from the command line to the answer, for real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from perfmodel.cli import cli
from perfmodel.cli.asking.compare import in_order, joined_warnings

#: No trained model: the analytical one answers, whatever this checkout ships.
MODELS = ["--models", "no-such-folder"]
RESNET = ["timm/resnet18", "--batch-size", "4", "--mode", "training"]


def _run(*args: str, stdin: str | None = None, code: int = 0) -> Result:
    shown = CliRunner().invoke(cli, list(args), input=stdin)
    assert shown.exit_code == code, (shown.stdout, shown.stderr, shown.exception)
    return shown


def _request(**job: Any) -> dict[str, Any]:
    return {
        "job": {"model": "timm/resnet18", "mode": "training", "batch_size": 4, **job},
        "placement": "A100-SXM4-80GB",
    }


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return a captured training step of ResNet-18 and what the command said about it."""
    path = tmp_path_factory.mktemp("graphs") / "resnet18.json"
    shown = _run("capture", *RESNET, "--output", str(path), "--json")
    return path, json.loads(shown.stdout)


def test_capture_prints_the_totals(captured: tuple[Path, dict[str, Any]]) -> None:
    _, totals = captured
    assert totals["parameters"] == 11_689_512  # published for ResNet-18 with 1000 classes
    # 1.82 GMAC an image at 224 x 224, two FLOPs each, four images.
    forward = totals["phases"]["forward"]["flops"]
    assert forward == pytest.approx(4 * 2 * 1.82e9, rel=0.02)
    # The backward pass does the work twice, less the gradient of the first layer's input.
    assert 1.8 < totals["phases"]["backward"]["flops"] / forward < 2.05
    assert totals["unpriced_operators"] == {}
    assert totals["bytes_by_role"]["parameter"] == 4 * 11_689_512


def test_capture_shows_people_units(captured: tuple[Path, dict[str, Any]]) -> None:
    path, totals = captured
    shown = _run("capture", str(path)).stdout
    for words in ("11.7 M", "GFLOP", "MiB", totals["hash"], "training, batch 4"):
        assert words in shown


def test_a_captured_graph_is_answered_like_its_model(
    captured: tuple[Path, dict[str, Any]],
) -> None:
    path, _ = captured
    on = ["--on", "A100-SXM4-80GB", "--json", *MODELS]
    from_file = json.loads(_run("predict", str(path), *on).stdout)
    by_name = json.loads(_run("predict", *RESNET, *on).stdout)
    assert from_file["step_time_s"] == by_name["step_time_s"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--batch-size", "3"], "captured with batch_size"),
        (["--mode", "inference"], "captured with mode training"),
        (["--memory-format", "channels_last"], "captured with memory_format channels_first"),
        (["--sequence-length", "7"], "sequence_length left open"),
        (["--dim", "n=3"], "--dim binds"),
    ],
)
def test_a_captured_graph_is_no_other_program(
    captured: tuple[Path, dict[str, Any]], options: list[str], says: str
) -> None:
    path, _ = captured
    on = ["--on", "A100-SXM4-80GB", *MODELS]
    assert says in _run("predict", str(path), *options, *on, code=2).stderr


def test_a_graph_that_notes_little_is_held_to_that(
    captured: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    graph = json.loads(captured[0].read_text())
    graph["source"] = {"mode": "training", "batch_size": "4"}
    path = tmp_path / "older.json"
    path.write_text(json.dumps(graph))
    on = ["--on", "A100-SXM4-80GB", *MODELS]
    assert "adamw" in _run("predict", str(path), "--optimizer", "adamw", *on).stdout
    assert "captured with batch_size 4" in _run(
        "predict", str(path), "--batch-size", "8", *on, code=2
    ).stderr  # fmt: skip


def test_a_captured_graph_keeps_how_it_trains(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    how = ["--mode", "training", "--optimizer", "adamw", "--accumulation-steps", "2"]
    how += ["--batch-size", "4", "--activation-checkpointing"]
    _run("capture", "timm/resnet18", *how, "-o", str(path))
    on = ["--on", "A100-SXM4-80GB", "--json", *MODELS]
    from_file = json.loads(_run("predict", str(path), *on).stdout)
    by_name = json.loads(_run("predict", "timm/resnet18", *how, *on).stdout)
    assert from_file["throughput"] == by_name["throughput"]
    other = _run("predict", str(path), "--optimizer", "sgd", *on, code=2).stdout
    assert "captured with optimizer adamw" in other
    content = path.read_text().replace('"micro_batches"', '"accumulation_steps"')
    path.write_text(content)
    assert "holds 2 micro-batches" in _run("predict", str(path), *on, code=2).stdout


def test_a_captured_sequence_model_keeps_its_tokens(tmp_path: Path) -> None:
    config = tmp_path / "bert.json"
    size = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config.write_text(json.dumps({"model_type": "bert", **size, "intermediate_size": 128}))
    path = tmp_path / "graph.json"
    _run("capture", str(config), "--sequence-length", "32", "-o", str(path))
    found = json.loads(_run("predict", str(path), "--on", "L4", "--json", *MODELS).stdout)
    rate = found["throughput"]
    assert rate["tokens_per_second"] == pytest.approx(32 * rate["samples_per_second"])


def test_plain_words_and_json_ask_the_same(tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    request.write_text(json.dumps(_request()))
    words = _run("predict", *RESNET, "--on", "A100-SXM4-80GB", "--json", *MODELS).stdout
    assert _run("predict", str(request), "--json", *MODELS).stdout == words
    piped = _run("predict", "-", "--json", *MODELS, stdin=json.dumps(_request()))
    assert piped.stdout == words


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ("--activation-checkpointing", "full"),
        ("--selective-checkpointing", "selective"),
        ("--no-activation-checkpointing", "none"),
    ],
)
def test_all_ways_to_recompute_can_be_asked_for(tmp_path: Path, option: str, word: str) -> None:
    gpt = {
        "model": "zoo/gpt2", "mode": "training", "batch_size": 1, "precision": "amp_bf16",
        "model_kwargs": {"num_layers": 2},
    }  # fmt: skip
    request = tmp_path / "request.json"
    job = {**gpt, "activation_checkpointing": word}
    request.write_text(json.dumps({"job": job, "placement": "A100-SXM4-80GB"}))
    shown = _run(
        "predict", "zoo/gpt2", "--mode", "training", "--precision", "amp_bf16", "--model-kwarg",
        "num_layers=2", option, "--on", "A100-SXM4-80GB", "--json", *MODELS,
    ).stdout  # fmt: skip
    assert _run("predict", str(request), "--json", *MODELS).stdout == shown


def test_the_answer_for_people_says_what_it_rests_on() -> None:
    shown = _run("predict", *RESNET, "--on", "2xA100-SXM4-80GB", *MODELS).stdout
    for words in ("samples/s", "step time", "80 GiB: fits", "analytical", "90 %"):
        assert words in shown


def test_lines_are_answered_in_order_and_a_bad_one_in_its_place(tmp_path: Path) -> None:
    lines = [
        json.dumps(_request(batch_size=1)),
        json.dumps(_request(batch_size=0)),
        "",
        '{"job": NaN}',
        json.dumps({**_request(), "placement": "A100-SXM4-80BG"}),
        json.dumps(_request(batch_size=8)),
    ]
    path = tmp_path / "requests.jsonl"
    path.write_text("\n".join(lines))
    shown = _run("predict", "--jsonl", str(path), *MODELS, code=1)
    answers = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [answer.get("line") for answer in answers] == [None, 2, 4, 5, None]
    assert answers[1]["errors"][0]["pointer"] == "/job/batch_size"
    assert answers[3]["did_you_mean"][0] == "A100-SXM4-80GB"
    small, large = answers[0]["step_time_s"], answers[-1]["step_time_s"]
    assert 0 < small < large


@pytest.mark.parametrize(
    ("stated", "named"),
    [
        (["--batch-size", "64", "--mode", "training"], "--batch-size, --mode would"),
        (["--selective-checkpointing"], "--selective-checkpointing would"),
        (["--bare"], "--bare would"),
        (["--inputs", "3x3"], "--inputs would"),
        (["--dim", "N=3"], "--dim would"),
    ],
)
def test_options_that_a_request_leaves_nothing_to_say_are_refused(
    tmp_path: Path, stated: list[str], named: str
) -> None:
    path = tmp_path / "request.json"
    path.write_text(json.dumps(_request()))
    for how in ([str(path)], ["--jsonl", str(path)]):
        shown = _run("predict", *how, *stated, *MODELS, code=2)
        assert named in shown.stderr
    assert "leave --on out" in _run("predict", "--jsonl", str(path), "--on", "T4", code=2).stderr


def test_the_first_line_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(json.dumps(_request()), encoding="utf-8-sig")
    assert "throughput" in json.loads(_run("predict", "--jsonl", str(path), *MODELS).stdout)


def test_lines_come_from_standard_input_too() -> None:
    shown = _run("predict", "--jsonl", "-", *MODELS, stdin=json.dumps(_request()) + "\n")
    assert json.loads(shown.stdout)["basis"] == "analytical"


def test_a_single_bad_line_among_none_is_still_told(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("")
    assert _run("predict", "--jsonl", str(path), *MODELS).stdout == ""


def test_a_request_may_pin_a_version_here_as_at_a_service() -> None:
    asked = json.dumps({**_request(), "pin_model": "analytical"})
    found = json.loads(_run("predict", "-", "--json", stdin=asked).stdout)
    assert (found["basis"], found["model_version"]) == ("analytical", "roofline")
    asked = json.dumps({**_request(), "pin_model": "default/19990101T000000Z"})
    refused = _run("predict", "-", *MODELS, stdin=asked, code=2).stderr
    assert "default/19990101T000000Z" in refused and "perfmodel models" in refused


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["timm/resnt18", "--on", "V100"], "Did you mean 'timm/resnet18'"),
        (["timm/resnet18", "--on", "V1000"], "Unknown accelerator 'V1000'"),
        (["timm/resnet18", "--batch-size", "0", "--on", "V100"], "batch_size must be"),
        (["timm/resnet18", "--mode", "train", "--on", "V100"], "Did you mean 'training'"),
        (["timm/resnet18", "--on", "0xV100"], "count must be"),
        (["timm/resnet18"], "--on"),
        (["resnets", "--on", "V100"], "Unknown model 'resnets'"),
        (["timm/resnet18", "--dim", "n=3", "--on", "V100"], "--dim"),
        (["absent.onnx", "--on", "V100"], "no file 'absent.onnx'"),
        (["timm/resnet18", "--on", "V100", "--model-kwarg", "no_such=1"], "no_such"),
    ],
)
def test_bad_input_is_one_clear_line(args: list[str], words: str) -> None:
    shown = _run("predict", *args, *MODELS, code=2)
    assert words in shown.stderr
    assert "Traceback" not in shown.stderr
    assert shown.stdout == ""


def test_a_truncated_onnx_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    path.write_bytes(b"\x08\x09\x3a\xff\xff")
    shown = _run("capture", str(path), code=2)
    assert "no complete ONNX file" in shown.stderr


def test_an_onnx_file_is_captured_and_answered(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", kind, ["n", 32])],
        [helper.make_tensor_value_info("y", kind, ["n", 64])],
        [helper.make_tensor("w", kind, [32, 64], [0.0] * 2048)],
    )
    path = tmp_path / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    totals = json.loads(_run("capture", str(path), "--dim", "n=16", "--json").stdout)
    assert totals["phases"]["forward"]["flops"] == 2 * 16 * 32 * 64
    unbound = _run("capture", str(path), "--dim", "n=0", code=2)
    assert "--dim n" in unbound.stderr
    on = ["--on", "L4", "--json", *MODELS]
    for said in (["--batch-size", "16"], ["--dim", "n=16"]):
        found = json.loads(_run("predict", str(path), *said, *on).stdout)
        rate = found["throughput"]["samples_per_second"]
        assert rate * found["step_time_s"] == pytest.approx(16)
    both = _run("predict", str(path), "--dim", "n=16", "--batch-size", "4", *on, code=2)
    assert "no input has that extent" in json.loads(both.stdout)["detail"]


def test_curve_counts_accelerators_itself() -> None:
    shown = _run("curve", *RESNET, "--on", "8xA100-SXM4-80GB", *MODELS, code=2)
    assert "name one, such as 'A100-SXM4-80GB', not '8xA100-SXM4-80GB'" in shown.stderr


def test_compare_ranks_by_throughput() -> None:
    on = [word for name in ("K80", "H100-SXM5-80GB", "V100-SXM2-16GB") for word in ("--on", name)]
    ranked = json.loads(_run("compare", *RESNET, *on, "--json", *MODELS).stdout)
    assert [row["placement"] for row in ranked] == ["H100-SXM5-80GB", "V100-SXM2-16GB", "K80"]
    table = _run("compare", *RESNET, *on, "--top", "2", *MODELS).stdout
    assert table.index("H100-SXM5-80GB") < table.index("V100-SXM2-16GB")
    assert "2 of 3 shown" in table


def test_compare_puts_what_does_not_fit_last_and_keeps_what_failed() -> None:
    job = ["timm/resnet18", "--batch-size", "4096", "--mode", "training"]
    on = ["--on", "V100-SXM2-16GB", "--on", "nonsense", "--on", "B200"]
    shown = _run("compare", *job, *on, "--json", *MODELS, code=1)
    ranked = json.loads(shown.stdout)
    assert ranked[0]["placement"] == "B200"
    assert not ranked[1]["memory"]["fits"]
    assert "nonsense" in ranked[2]["error"]["detail"]


def test_compare_says_once_what_holds_of_several() -> None:
    rows = [
        {"placement": "4xL4", "warnings": ["Nothing was learned of L4.", "Slow."]},
        {"placement": "4xT4", "warnings": ["Nothing was learned of T4.", "Slow."]},
        {"placement": "4xTPU-v9", "error": {"detail": "unknown"}},
    ]
    assert joined_warnings(rows)[0] == "Nothing was learned of L4, T4."
    assert len(joined_warnings(rows)) == 2
    read = "'H100' is read as H100-SXM5-80GB; say H100-NVL where it is that."
    both = [{"placement": name, "warnings": [read]} for name in ("H100", "8xH100")]
    assert joined_warnings(both) == [read]
    lacking = [{"placement": one, "warnings": [f"{one} has no fp32."]} for one in ("T4", "L4")]
    assert joined_warnings(lacking) == ["T4, L4 have no fp32."]
    assert joined_warnings(lacking[:1]) == ["T4 has no fp32."]


def test_compare_takes_a_memory_that_is_not_known_for_one_that_may_do() -> None:
    rows = [
        {"memory": {"fits": fits}, "throughput": {"samples_per_second": rate}}
        for fits, rate in ((False, 3.0), (None, 2.0), (True, 1.0))
    ]
    assert [row["memory"]["fits"] for row in sorted(rows, key=in_order)] == [None, True, False]


@pytest.mark.parametrize(("option", "said"), [("--script", True), ("--bare", False)])
def test_a_job_can_be_said_to_be_a_script(tmp_path: Path, option: str, said: bool) -> None:
    job = {"model": "timm/resnet18", "mode": "training", "batch_size": 64, "script": said}
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"job": job, "placement": "T4"}))
    shown = _run(
        "predict", "timm/resnet18", "--mode", "training", "--batch-size", "64", option, "--on",
        "T4", "--json", *MODELS,
    ).stdout  # fmt: skip
    assert _run("predict", str(request), "--json", *MODELS).stdout == shown
    assert (json.loads(shown)["script_efficiency"] is not None) == said


def test_training_options_of_a_job_are_asked_for(tmp_path: Path) -> None:
    config = tmp_path / "adapter_config.json"
    config.write_text(json.dumps({"peft_type": "LORA", "r": 8, "target_modules": ["fc"]}))
    words = ["--mixed-precision", "bf16,reduce=fp32", "--frozen", "conv1*", "--frozen", "layer*"]
    on = ["--on", "8xA100-SXM4-80GB zero=3 replicate=2 offload=optimizer"]
    shown = _run("predict", *RESNET, *words, *on, *MODELS, "--json").stdout
    plain = _run("predict", *RESNET, "--on", "8xA100-SXM4-80GB", *MODELS, "--json").stdout
    stated, usual = json.loads(shown), json.loads(plain)
    assert stated["compute_time_s"] < usual["compute_time_s"]
    assert any("memory of the host" in text for text in stated["warnings"])
    adapted = _run("predict", *RESNET, "--adapter", str(config), *on, *MODELS, "--json").stdout
    assert json.loads(adapted)["compute_time_s"] < usual["compute_time_s"]
    refused = _run("predict", *RESNET, "--mixed-precision", "fp8", *on, *MODELS, code=2)
    assert "fp32, bf16, fp16" in refused.stderr
    missing = _run("predict", *RESNET, "--adapter", str(tmp_path / "no.json"), *on, *MODELS, code=2)
    assert "no.json cannot be read: No such file or directory." in missing.stderr


def test_a_request_may_say_that_a_step_ran_out_of_memory(tmp_path: Path) -> None:
    seen = {"placement": "T4", "batch_size": 4, "out_of_memory": True}
    request = {**_request(), "placement": "T4"}
    lines = [request, {**request, "observations": [seen]}]
    lines.append({**request, "observations": [{**seen, "step_time_s": 0.1}]})
    path = tmp_path / "requests.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    shown = _run("predict", "--jsonl", str(path), *MODELS, code=1).stdout
    before, after, refused = map(json.loads, shown.splitlines())
    assert (before["memory"]["fits"], after["memory"]["fits"]) == (True, False)
    assert any("was observed to run out of memory" in said for said in after["warnings"])
    assert after["step_time_s"] == before["step_time_s"]
    assert "has no time" in refused["detail"]
