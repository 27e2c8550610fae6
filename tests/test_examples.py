"""Every example runs as its first lines say."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


def _run(name: str, *args: str) -> str:
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *args],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture
def service(tmp_path: Path) -> Iterator[str]:
    """Start the service as a user does and yield its URL."""
    script = Path(sys.executable).with_name("perfmodel")
    database = str(tmp_path / "perfmodel.db")
    command = [str(script), "serve", "--port", "0", "--database", database]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+?:\d+", process.stdout.readline())
        assert found is not None
        yield found.group()
        process.terminate()
        process.wait(timeout=PATIENCE_S)


def test_the_list_of_examples_is_complete() -> None:
    listed = (ROOT / "examples" / "README.md").read_text()
    assert all(f"({name})" in listed for name in EXAMPLES)


def test_predict() -> None:
    lines = _run("predict.py").splitlines()
    assert len(lines) == 4
    assert all("samples/s" in line for line in lines)


def test_train() -> None:
    # 7 x 7 of 3 channels; four of 3 x 3 with a norm each; 10 classes; biases.
    parameters = (147 + 1) * 64 + 4 * ((576 + 1) * 64 + 2 * 64) + (64 + 1) * 10
    assert _run("train.py").split() == [str(parameters), "parameters"]


def test_diffusion() -> None:
    pytest.importorskip("diffusers")
    # As published: 859.5 million.
    assert _run("diffusion.py").split() == ["859520964", "parameters"]


def test_capture_own_module() -> None:
    shown = _run("capture_own_module.py")
    # Two gates of 512 x 512 with biases, a layer norm, and a linear layer to 10 classes.
    parameters = 2 * (512 * 512 + 512) + 2 * 512 + (512 * 10 + 10)
    assert f"{parameters} parameters, unpriced: none" in shown
    # Forward: the three matrix products are 2 x 32 x (512 x 512 x 2 + 512 x 10) = 33.9 MFLOP.
    forward = re.search(r"^forward .* ([\d.]+) MFLOP", shown, re.MULTILINE)
    assert forward is not None
    assert float(forward.group(1)) == pytest.approx(33.9, rel=0.02)


def test_ask_over_http(service: str) -> None:
    lines = _run("ask_over_http.py", service).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["timm/resnet18", "timm/resnet50"]
    assert all(line.count("/s") == 3 for line in lines[1:])
