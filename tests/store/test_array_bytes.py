from __future__ import annotations

import zlib

import numpy as np
import pytest

from perfmodel.store.array_bytes import from_bytes, to_bytes

ARRAYS = {
    "flags": np.array([True, False, True]),
    "codes": np.array([[1], [-2], [3]], dtype=np.int8),
    "halves": np.linspace(0, 1, 5, dtype=np.float32),
    "times": np.array([1e-300, np.inf, -0.0, 1 / 3]),
    "scalar": np.array(7),
    "none": np.zeros((0, 4)),
}


def test_arrays_come_back_bit_for_bit() -> None:
    arrays, values = from_bytes(to_bytes(ARRAYS, {"ops": ["mm", "é"], "count": 3}))
    assert values == {"ops": ["mm", "é"], "count": 3}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        found = arrays[name]
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert found.tobytes() == array.tobytes()
        assert found.flags.aligned and found.flags.writeable


def test_nothing_at_all_comes_back() -> None:
    assert from_bytes(to_bytes({}, {})) == ({}, {})


def test_only_numbers_are_written() -> None:
    with pytest.raises(ValueError, match="words is no array of numbers"):
        to_bytes({"words": np.array(["a"])}, {})
    with pytest.raises(TypeError):
        to_bytes({}, {"what": object()})


def _header(text: bytes) -> bytes:
    return zlib.compress(len(text).to_bytes(8, "little") + text)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no deflated bytes",
        to_bytes(ARRAYS, {})[:-3],
        zlib.compress(b""),
        _header(b"{}"),
        _header(b'{"arrays":[["a","<f8",[4]]],"values":{}}'),
        _header(b'{"arrays":[["a","<f8",[-4]]],"values":{}}'),
        _header(b'{"arrays":[["a","|O",[0]]],"values":{}}'),
        _header(b'{"arrays":[["a","nonsense",[0]]],"values":{}}'),
        _header(b'{"arrays":[["a","<f8","x"]],"values":{}}'),
        _header(b'{"arrays":7,"values":{}}'),
        _header(b"[]"),
    ],
)
def test_damaged_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError):
        from_bytes(content)
