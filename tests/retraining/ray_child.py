"""The same retraining here and on a Ray cluster of this machine; run by an interpreter with Ray.

``python ray_child.py FOLDER SETTINGS``; prints how each ended as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def retrained(folder: Path, settings: str, engine: str) -> dict[str, Any]:
    """Run the command on a database, a store and a cache of its own."""
    own = folder / engine
    ran = subprocess.run(
        [
            sys.executable, "-m", "perfmodel", "retrain", "--json", "--settings", settings,
            "--engine", engine, "--processes", "1",  # on a cluster as many as it has processors
            "--profiles", str(folder / "profiles"), "--data", str(folder / "tables"),
            "--models", str(own / "models"), "--database", f"sqlite:///{own}/state.db",
        ],
        env={
            **os.environ, "SOURCE_DATE_EPOCH": "1790000000",
            "PERFMODEL_CACHE": str(own / "cache"),  # what one has captured the other has not
        },
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode in (0, 4), ran.stderr[-3000:]
    told: dict[str, Any] = json.loads(ran.stdout)
    return told | {"said": ran.stderr}


def main() -> None:
    """Do both."""
    folder, settings = Path(sys.argv[1]), sys.argv[2]
    print(json.dumps({name: retrained(folder, settings, name) for name in ("local", "ray")}))


if __name__ == "__main__":
    main()
