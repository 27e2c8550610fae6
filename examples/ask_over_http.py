"""Ask a running service, with nothing but the standard library.

make serve                                  # in another terminal
.venv/bin/python examples/ask_over_http.py http://127.0.0.1:8000
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from typing import Any


def ask(url: str, question: dict[str, Any]) -> dict[str, Any]:
    """Post a question; an answer of the service that says no is printed and ends the program."""
    request = urllib.request.Request(
        f"{url}/v1/matrix",
        data=json.dumps(question).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return dict(json.load(answer))
    except urllib.error.HTTPError as error:
        problem = json.load(error)
        sys.exit(f"{problem['title']}: {problem['detail']}")


def main() -> None:
    url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"
    models, placements = ["timm/resnet18", "timm/resnet50"], ["L4", "A100-SXM4-80GB", "8xL4"]
    answer = ask(
        url,
        {
            "jobs": [{"model": m, "mode": "inference", "batch_size": 32} for m in models],
            "placements": placements,
        },
    )
    print(" " * 16, *(f"{placement:>16}" for placement in placements))
    for model, rates in zip(models, answer["samples_per_second"], strict=True):
        print(f"{model:<16}", *(f"{rate:>12.0f} /s " for rate in rates))


if __name__ == "__main__":
    main()
