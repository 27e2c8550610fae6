"""axe-core, which finds what keeps people from using a page; fetched from npm once and kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest
from chromium import Tab

_PACKAGE = "axe-core@4.10.3"
_KEPT = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "perfmodel" / _PACKAGE

_FINDINGS = """
axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations.flatMap(
  ({id, nodes}) => nodes.map(({html}) => `${id}: ${html.slice(0, 120)}`)))
"""


def findings(tab: Tab) -> list[str]:
    """Return the violations that axe-core sees in the page as it stands."""
    tab.run(f"{_script()}; null")
    found: list[str] = tab.run(_FINDINGS)
    return found


def _script() -> str:
    kept = _KEPT / "axe.min.js"
    if not kept.is_file():
        _fetch(kept)
    return kept.read_text()


def _fetch(kept: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("axe-core comes from npm, which is not here")
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(
                [npm, "pack", _PACKAGE, "--silent", "--pack-destination", folder],
                check=True, capture_output=True, timeout=120, cwd=folder,
            )  # fmt: skip
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"{_PACKAGE} cannot be fetched here: {error}")
        (packed,) = Path(folder).glob("*.tgz")
        with tarfile.open(packed) as archive:
            script = archive.extractfile("package/axe.min.js")
            assert script is not None
            kept.parent.mkdir(parents=True, exist_ok=True)
            made = kept.with_suffix(f".{os.getpid()}")
            made.write_bytes(script.read())
            made.rename(kept)
