"""Virtual environments with the packages of others, made once a machine and kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest

#: Where they are kept; a folder can be removed at any time.
FOLDER = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "perfmodel" / "venvs"


def python_with(name: str, variable: str, *installs: Sequence[str]) -> Path:
    """Return an interpreter that has some packages, or skip with the reason.

    Parameters
    ----------
    name : str
        For people.
    variable : str
        Of the environment; may name an interpreter that has them already.
    *installs : sequence of str
        What ``pip install`` is given, one call after the other.
    """
    given = os.environ.get(variable)
    if given:
        return Path(given)
    asked = repr((sys.version, installs)).encode()
    kept = FOLDER / f"{name}-{hashlib.sha256(asked).hexdigest()[:16]}"
    if not kept.is_dir():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            made = _made(Path(folder) / "made", installs)
            shutil.rmtree(kept, ignore_errors=True)
            made.rename(kept)
    return kept / "bin" / "python"


def _made(folder: Path, installs: Sequence[Sequence[str]]) -> Path:
    # The pip that is here installs into it: one of its own takes seconds to unpack.
    venv.create(folder, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
    for arguments in installs:
        try:
            subprocess.run(
                [*pip, "--quiet", "--no-compile", "--disable-pip-version-check", *arguments],
                capture_output=True, text=True, check=True, timeout=400,
            )  # fmt: skip
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"{arguments} cannot be installed here: {str(error.stderr).strip()[-300:]}")
    return folder
