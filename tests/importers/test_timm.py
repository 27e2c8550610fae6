from pathlib import Path

import pytest

from perfmodel.errors import StoreError
from perfmodel.importers.jobs.timm_results import read_timm
from perfmodel.types import Compiler, MemoryFormat, Mode, Precision

HEADER = "model,infer_img_size,infer_samples_per_sec,infer_step_time,infer_batch_size\n"


def test_the_file_name_says_what_ran(tmp_path: Path) -> None:
    table = tmp_path / "benchmark-infer-amp-nhwc-pt240-cu124-rtx4090-dynamo.csv"
    table.write_text(HEADER + "made_up_net,160,2000.0,128.0,256.0\n")
    (step,) = read_timm(tmp_path).steps
    job = step.job
    assert (job.model, job.batch_size, job.mode) == ("timm/made_up_net", 256, Mode.INFERENCE)
    assert (job.precision, job.memory_format) == (Precision.AMP_FP16, MemoryFormat.CHANNELS_LAST)
    assert job.compiler is Compiler.INDUCTOR
    assert job.software == {"torch": "2.4.0", "cuda": "12.4"}
    assert job.model_kwargs == {"img_size": 160}
    assert step.accelerator == "RTX-4090"
    assert step.step_time_s == pytest.approx(256 / 2000.0)


def test_rows_that_say_nothing_are_rejected_with_file_and_line(tmp_path: Path) -> None:
    table = tmp_path / "benchmark-infer-fp32-nchw-pt113-cpu-i9_10940x.csv"
    table.write_text(HEADER + "a,224,0,1,1\nb,224,ten,1,1\nc,224,12.5,80,1\n")
    (tmp_path / "benchmark-infer-int3-nchw-pt113-cu117-rtx3090.csv").write_text(HEADER)
    imported = read_timm(tmp_path)
    assert [(r.file[:20], r.line) for r in imported.rejected] == [
        ("benchmark-infer-fp32", 2),
        ("benchmark-infer-fp32", 3),
        ("benchmark-infer-int3", 0),
    ]
    assert [s.job.software for s in imported.steps] == [{"torch": "1.13"}]


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="benchmark-"):
        read_timm(tmp_path)
