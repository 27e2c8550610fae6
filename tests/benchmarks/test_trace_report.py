"""What judges the reading of traces: the made trace, the comparison, the section of the page."""

from __future__ import annotations

from pathlib import Path

import made_traces as made
import pytest
from accuracy_report.kept_sections import TRACES, kept_sections, with_section
from trace_report.made import reading_of_made_trace, write_made_trace
from trace_report.peer import Agreement
from trace_report.predicted import PredictedCall, predicted_calls, traces_section

from perfmodel.traces.formats.registry import read_trace

PAGE = "# Accuracy\n\n## One\n\nText.\n\n## What was not blind\n\nThat.\n"


def test_a_section_is_put_in_once_and_replaced(tmp_path: Path) -> None:
    once = with_section(PAGE, TRACES, f"{TRACES}\n\nA table.")
    again = with_section(once, TRACES, f"{TRACES}\n\nAnother.")
    assert once.index("## One") < once.index(TRACES) < once.index("## What was not blind")
    assert again == once.replace("A table.", "Another.")
    path = tmp_path / "accuracy.md"
    assert kept_sections(path) == []
    path.write_text(again)
    # What writes the whole page again puts these lines where they were.
    assert kept_sections(path) == [TRACES, "", "Another.", ""]


def test_a_made_trace_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    write_made_trace(path, 12_345)
    trace = read_trace(path)
    assert len(trace.operators) == len(trace.kernels) == 12_345
    assert trace.kernels.operator.tolist() == list(range(12_345))
    assert int(trace.kernels.duration_ns.sum()) == 12_345 * 7250


@pytest.mark.parametrize(
    ("ours_s", "theirs_s", "difference"),
    [(1.01, 1.0, pytest.approx(0.01)), (None, 1.0, None), (1.0, None, None), (0.0, 0.0, None)],
)
def test_only_what_both_read_is_compared(
    ours_s: float | None, theirs_s: float | None, difference: float | None
) -> None:
    assert Agreement(file="f", ours_s=ours_s, theirs_s=theirs_s).difference == difference


def test_the_section_counts_each_class_and_device() -> None:
    def call(op_class: str, traced_us: float, predicted_us: float, calls: int) -> PredictedCall:
        return PredictedCall(
            file="f", accelerator="MI300X", op_class=op_class, calls=calls,
            traced_s=traced_us * 1e-6, predicted_s=predicted_us * 1e-6,
            low_s=0.5e-6 * predicted_us, high_s=1.5e-6 * predicted_us,
        )  # fmt: skip

    lines = traces_section(
        [call("matmul", 100, 80, 3), call("elementwise", 5, 10, 10)], "the command"
    ).splitlines()
    rows = [line for line in lines if line.startswith("| MI300X")]
    # 3 x 80 + 10 x 10 over 3 x 100 + 10 x 5; errors 0.2 and 1.0; the long one alone 0.2.
    assert rows[0] == (
        "| MI300X | all | 2 | 0.35 ms | 0.97 | 1.40 | 60.0 % | 1 | 20.0 % | 100.0 % |"
    )
    assert len(rows) == 3


@pytest.mark.parametrize(
    ("dur", "traced_us"),
    # Cut off to whole microseconds, 4 stands for 4 to 5 on average; 4.25 was not cut off.
    [(4.0, 4.5), (4.25, 4.25)],
)
def test_durations_that_were_cut_off_count_by_their_middle(
    tmp_path: Path, dur: float, traced_us: float
) -> None:
    pytest.importorskip("torch")
    shapes = {"Input_Dims": [[8, 16]], "Input_type": ["float"]}
    events = [
        made.call("aten::relu", 0.0, 9.0, **shapes), made.launch(1, 3.0),
        made.kernel("k", 1, 20.0, dur),
    ]  # fmt: skip
    path = made.write_trace(tmp_path / "trace.json", events)
    (found,) = predicted_calls([path], tmp_path)
    assert found.traced_s == pytest.approx(traced_us * 1e-6)


def test_what_never_had_the_device_for_itself_is_not_judged(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    shapes = {"Input_Dims": [[8, 16]], "Input_type": ["float"]}
    events = [
        made.call("aten::relu", 0.0, 9.0, **shapes), made.launch(1, 3.0),
        made.kernel("k", 1, 20.0, 4.0), made.kernel("other", 7, 22.0, 9.0, stream=9),
    ]  # fmt: skip
    assert predicted_calls([made.write_trace(tmp_path / "trace.json", events)], tmp_path) == []


def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    reading = reading_of_made_trace(tmp_path / "made.json", 60_000)
    assert reading.size_bytes > 33e6
    # The columns of 60,000 calls and kernels take 7 MB; the document as objects takes 400.
    assert reading.memory_bytes < 200e6
    assert reading.joined == reading.kernels == 60_000
