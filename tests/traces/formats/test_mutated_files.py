"""Files of every format, changed at random: each is read or refused with a reason."""

from __future__ import annotations

import random
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from made_up_profiles import small_files
from often import often
from slowest import Slowest

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.registry import read_trace

#: What stands in numbers, names and nesting of files that somebody broke on purpose.
PIECES = (b"-1", b"NaN", b"1e400", b"9223372036854775808", b"9" * 400, b"null", b"[" * 2_000,
          b'{"a":' * 2_000, b"\x00", b"\xff\xfe", b'"', b",", b"]}", b"{}", b"true", b'"\\ud800"',
          b"1970-01-01", b"0x7f")  # fmt: skip
#: Of each file.
CHANGES = often(120)


def _changed(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content) + 1)
    match chance.randrange(5):
        case 0:
            return content[:at]
        case 1:
            return content[:at] + chance.choice(PIECES) + content[at:]
        case 2:
            return content[:at] + chance.choice(PIECES) + content[at + chance.randrange(12) :]
        case 3:
            return content[:at] + bytes([chance.randrange(256)]) + content[at + 1 :]
        case _:
            other = chance.randrange(len(content) + 1)
            return content[: max(at, other)] + content[min(at, other) :]


def test_changed_files_are_read_or_refused(
    tmp_path: Path, record_property: Callable[[str, object], None], slowest: Slowest
) -> None:
    files = small_files(tmp_path)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    chance = random.Random(16)
    refused = 0
    for content in files.values():
        for number in range(CHANGES):
            path = tmp_path / "changed"
            path.write_bytes(_changed(content, chance))
            try:
                with slowest.timing():
                    trace = read_trace(path)
                assert (trace.kernels.duration_ns >= 0).all(), number
                assert np.isin(trace.kernels.operator, range(-1, len(trace.operators))).all()
            except InvalidTraceError as error:
                refused += 1
                assert len(error.message) < 4_000
    record_property("broken traces", len(files) * CHANGES)
    assert len(files) * CHANGES / 4 < refused < len(files) * CHANGES
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 512 * 1024


def test_sound_files_are_read(tmp_path: Path) -> None:
    for name, content in small_files(tmp_path).items():
        path = tmp_path / "sound"
        path.write_bytes(content)
        assert read_trace(path).format == ("pytorch-execution-trace" if name == "tar" else
                                           name.partition(",")[0]), name  # fmt: skip


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"[]", b"{}", b"[[[", b"null", b"1", b"a,b\n1,2"]
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(InvalidTraceError):
        read_trace(path)
