"""Gzipped files: several members, cut, damaged, and bombs."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.unpacking import CutShortError, read_head, unpacked
from perfmodel.traces.limits import TraceLimits

LIMITS = TraceLimits()


def _file(folder: Path, content: bytes) -> Path:
    path = folder / "file"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_content_is_the_same_packed_and_plain(tmp_path: Path, packed: bool) -> None:
    content = bytes(range(256)) * 9000
    path = _file(tmp_path, gzip.compress(content) if packed else content)
    assert b"".join(unpacked(path, LIMITS, piece_bytes=1000)) == content


def test_members_follow_each_other(tmp_path: Path) -> None:
    path = _file(tmp_path, gzip.compress(b"ab") + gzip.compress(b"cd"))
    assert b"".join(unpacked(path, LIMITS)) == b"abcd"


def test_a_cut_file_yields_what_it_has(tmp_path: Path) -> None:
    content = bytes(i * i % 251 for i in range(100_000))
    whole = gzip.compress(content)
    found = bytearray()
    with pytest.raises(CutShortError, match="damaged gzip"):
        for piece in unpacked(_file(tmp_path, whole[: len(whole) // 2]), LIMITS):
            found += piece
    assert found and content.startswith(found)
    assert read_head(tmp_path / "file", LIMITS) == bytes(found)


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    path = _file(tmp_path, gzip.compress(bytes(40 * 2**20)))
    with pytest.raises(InvalidTraceError, match="more than 150 times its size"):
        list(unpacked(path, LIMITS))


def test_what_is_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidTraceError, match="holds more than"):
        list(unpacked(_file(tmp_path, b"x" * 2000), TraceLimits(size_bytes=1000)))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InvalidTraceError, match="cannot be read"):
            list(unpacked(path, LIMITS))
    with pytest.raises(InvalidTraceError, match="is empty"):
        read_head(_file(tmp_path, b""), LIMITS)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("packed", [False, True])
def test_text_with_a_byte_order_mark_becomes_utf_8(
    tmp_path: Path, encoding: str, packed: bool
) -> None:
    """As PowerShell redirects the output of a program."""
    content = "Zeit (µs),Name\r\n1,gemm\r\n".encode(encoding)
    path = _file(tmp_path, gzip.compress(content) if packed else content)
    # Pieces of three bytes cut characters of two.
    found = list(unpacked(path, LIMITS, piece_bytes=3))
    assert b"".join(found).decode() == "Zeit (µs),Name\r\n1,gemm\r\n"
    assert all(found)
