"""JSON as profilers write it: mostly sound, at times not.

NaN and control characters in names stand raw in traces of all ages. Kineto of PyTorch 1.8 printed
what C++ prints (``inf``, ``-nan``, ``N/A``) where a copy took no time
(pytorch/kineto#105), and paths of Windows keep their backslashes.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

#: Strings, an open one up to the end, and what C++ prints for numbers that are none.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|(?<![\w.])-?(?:inf|nan|N/A)\b', re.DOTALL)
_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')


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
        for candidate in (text, _TOKEN.sub(_repaired, text)):
            try:
                return json.loads(candidate.decode(errors="replace"), strict=False)
            except (ValueError, RecursionError):
                continue
        raise strict


def _repaired(token: re.Match[bytes]) -> bytes:
    found = token[0]
    return _ESCAPE.sub(_escaped, found) if found.startswith(b'"') else b"null"


def _escaped(escape: re.Match[bytes]) -> bytes:
    return escape[0] if len(escape[0]) > 1 else rb"\\"
