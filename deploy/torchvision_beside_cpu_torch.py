"""Let torchvision be imported in an environment where its compiled operators do not load.

An index that offers a CPU build of torch may offer the CUDA build of torchvision alone, whose
import then fails at two operators; with it fail timm, diffusers and most of transformers. Where
that is so, this leaves two files among the packages of an environment: before torchvision is first
imported they declare those operators, as perfmodel does for itself. Nothing else is changed.

python deploy/torchvision_beside_cpu_torch.py [FOLDER]
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

#: Python runs the lines of such files at its start if they begin with ``import``.
NAME = "declares_torchvision_operators"

_HOOK = '''"""Written by perfmodel: declares two operators before torchvision is first imported."""

import sys


class BeforeTorchvision:
    """Finds torchvision as others do, and has the operators declared before it is run."""

    def find_spec(self, name, path=None, target=None):
        if name != "torchvision":
            return None
        import importlib.util

        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = _declaring(spec.loader.exec_module)
        return spec


def _declaring(run):
    def exec_module(module):
        try:
            from perfmodel.zoo.libraries import declare_torchvision_operators
        except ImportError:
            return run(module)
        declare_torchvision_operators()
        return run(module)

    return exec_module


sys.meta_path.insert(0, BeforeTorchvision())
'''


def main(folder: Path) -> None:
    """Leave the files in a folder of packages, unless torchvision is absent or can be imported."""
    for path in (folder / f"{NAME}.py", folder / f"{NAME}.pth"):
        path.unlink(missing_ok=True)
    if not is_needed():
        return
    (folder / f"{NAME}.py").write_text(_HOOK)
    (folder / f"{NAME}.pth").write_text(f"import {NAME}\n")


def is_needed() -> bool:
    """Tell whether torchvision is there and cannot be imported as it is."""
    code = "import importlib.util as u; u.find_spec('torchvision') and __import__('torchvision')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    return run.returncode != 0


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else sysconfig.get_path("purelib")))
