"""Write the answer that README.md shows, as the shipped models give it.

.venv/bin/python docs/readme_answer.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from perfmodel import Estimator, parse_request

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
_BLOCK = re.compile(r"(<!-- answer:begin -->\n).*?(<!-- answer:end -->)", re.DOTALL)
_QUERY = re.compile(r"-d '(\{.*?\})'", re.DOTALL)


def shown_query() -> dict[str, Any]:
    """Return the query of README.md."""
    found = _QUERY.search(README.read_text())
    assert found is not None
    return dict(json.loads(found.group(1)))


def answer() -> dict[str, Any]:
    """Return what the shipped models answer to it."""
    job, placement = parse_request(shown_query())
    return Estimator.from_folder(ROOT / "models").estimate(job, placement).to_dict()


def shown_answer() -> dict[str, Any]:
    """Return the answer of README.md."""
    found = re.search(r"answer:begin -->\n```json\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    return dict(json.loads(found.group(1)))


def main() -> None:
    """Replace the answer of README.md."""
    block = f"```json\n{json.dumps(answer(), indent=2)}\n```\n"
    text = _BLOCK.sub(lambda found: found.group(1) + block + found.group(2), README.read_text())
    README.write_text(text)


if __name__ == "__main__":
    main()
