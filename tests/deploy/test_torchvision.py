"""transformers, timm and diffusers import in an environment, whatever builds its index offered."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy" / "torchvision_beside_cpu_torch.py"

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder as the script leaves that of an environment."""
    folder = tmp_path_factory.mktemp("packages")
    subprocess.run([sys.executable, str(SCRIPT), str(folder)], check=True, cwd=ROOT)
    return folder


@pytest.mark.parametrize(
    "line",
    [
        "from transformers import LlamaForCausalLM",
        "import timm",
        "from perfmodel.zoo.libraries import import_timm; import_timm()",
        "from diffusers import UNet2DConditionModel",
    ],
)
def test_it_imports_after_the_start_that_python_makes(line: str, packages: Path) -> None:
    library = line.split()[1].partition(".")[0]
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    # As Python reads the folder of an environment when it starts.
    code = f"import site; site.addsitedir({str(packages)!r})\n{line}"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert run.returncode == 0, run.stderr


def test_the_files_load_nothing_before_they_are_needed(packages: Path) -> None:
    code = f"import site, sys; site.addsitedir({str(packages)!r}); print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
