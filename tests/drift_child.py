"""A process that keeps drift on a database until it is killed: ``python drift_child.py FOLDER``.

It says ``ready`` once it looks.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from fastapi.testclient import TestClient
from guarded_service import make_app

if __name__ == "__main__":
    with TestClient(make_app(Path(sys.argv[1]), drift_poll_s=0.1, drift_share=0.5)):
        print("ready", flush=True)
        time.sleep(600)
