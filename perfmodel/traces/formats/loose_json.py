"""JSON as profilers write it: mostly sound, at times not.

NaN and control characters in names stand raw in traces of all ages. Kineto of PyTorch 1.8 printed
what C++ prints (``inf``, ``-nan``, ``N/A``) where a copy took no time
(pytorch/kineto#105), and paths of Windows keep their backslashes. Halves of characters, as names
that were cut end in, are replaced.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

#: Strings, an open one up to the end, and what C++ prints for numbers that are none.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|(?<![\w.])-?(?:inf|nan|N/A)\b', re.DOTALL)
_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
#: Pairs of escapes that are one character beyond 16 bits, and halves of them without the other;
#: other escapes are matched to be passed over.
_SURROGATE = re.compile(
    rb"\\[^u]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


def loads(text: bytes) -> Any:
    """Parse JSON; numbers that are none become None, backslashes that escape nothing stay.

    Raises
    ------
    ValueError
        It is no JSON for other reasons; the message is that of the strict parser.

    Examples
    --------
    >>> loads(b'{"GB/s": inf, "bytes": 200, "name": "C:' + bytes([92]) + b'Users"}')["GB/s"] is None
    True
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as strict:
        text = _SURROGATE.sub(_paired, text)
        for candidate in (text, _TOKEN.sub(_repaired, text)):
            try:
                return json.loads(candidate.decode(errors="replace"), strict=False)
            except (ValueError, RecursionError):
                continue
        raise strict


def _paired(escape: re.Match[bytes]) -> bytes:
    found = escape[0]
    return rb"\ufffd" if len(found) == len(rb"\ud800") else found


def _repaired(token: re.Match[bytes]) -> bytes:
    found = token[0]
    return _ESCAPE.sub(_escaped, found) if found.startswith(b'"') else b"null"


def _escaped(escape: re.Match[bytes]) -> bytes:
    return escape[0] if len(escape[0]) > 1 else rb"\\"
