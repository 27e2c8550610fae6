"""Write the frozen answers again: ``python tests/golden/freeze.py``.

Only for a change of answers that is wanted: the frozen ones say what must not change by accident.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).with_name("answers.json.xz")


def frozen() -> dict[str, Any]:
    """Return the frozen answers by the names of their questions."""
    found: dict[str, Any] = json.loads(lzma.decompress(ANSWERS.read_bytes()))
    return found


def plain(answer: Any) -> Any:
    """Return an answer as JSON reads it back."""
    return json.loads(json.dumps(answer, default=float))


def main() -> None:
    """Write them."""
    from golden.questions import answers
    from golden.stand_in import stand_in_estimator

    found = {name: plain(answer) for name, answer in answers(stand_in_estimator())}
    ANSWERS.write_bytes(lzma.compress(json.dumps(found, sort_keys=True).encode()))


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]
    main()
