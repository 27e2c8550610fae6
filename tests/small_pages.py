"""Pages of text, taken apart."""

from __future__ import annotations

import re
import textwrap

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:^    .*\n)+", re.MULTILINE)


def fenced_and_indented(text: str) -> list[str]:
    """Return the blocks of a page that a shell would read."""
    blocks = [code for language, code in FENCED.findall(text) if language in ("", "sh", "bash")]
    return blocks + [textwrap.dedent(found) for found in INDENTED.findall(FENCED.sub("", text))]
