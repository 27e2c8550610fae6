"""Ask a running service; the client needs nothing but the standard library.

make serve                                  # in another terminal
.venv/bin/python examples/ask_over_http.py http://127.0.0.1:8000
"""

from __future__ import annotations

import sys

from perfmodel.client import Client, NoAnswerError
from perfmodel.client.forms import Job


def main() -> None:
    url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"
    models, placements = ["timm/resnet18", "timm/resnet50"], ["L4", "A100-SXM4-80GB", "8xL4"]
    jobs: list[Job] = [{"model": m, "mode": "inference", "batch_size": 32} for m in models]
    with Client(url, timeout_s=60) as service:
        try:
            answer = service.matrix(jobs, placements)
        except NoAnswerError as error:
            sys.exit(str(error))
    print(" " * 16, *(f"{placement:>16}" for placement in placements))
    for model, rates in zip(models, answer.samples_per_second, strict=True):
        print(f"{model:<16}", *(f"{rate:>12.0f} /s " for rate in rates))


if __name__ == "__main__":
    main()
