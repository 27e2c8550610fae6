"""Kept sketches: whole or absent, and forgotten when damaged."""

from pathlib import Path

import numpy as np

from perfmodel.store.sketches import SketchFiles


def test_arrays_come_back_as_they_were_kept(tmp_path: Path) -> None:
    files = SketchFiles(tmp_path)
    arrays = {"count": np.array([2.0, 3.0]), "ops": np.array(["mm", "relu"])}
    files.write("abcdef", arrays)
    found = files.read("abcdef")
    assert found is not None
    assert set(found) == {"count", "ops"}
    np.testing.assert_array_equal(found["count"], [2.0, 3.0])
    assert found["ops"].tolist() == ["mm", "relu"]


def test_a_key_that_was_never_written_is_absent(tmp_path: Path) -> None:
    assert SketchFiles(tmp_path).read("abcdef") is None


def test_a_torn_or_altered_file_is_removed(tmp_path: Path) -> None:
    files = SketchFiles(tmp_path)
    for damage in (lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[:60] + b"xx" + b[62:]):
        files.write("abcdef", {"count": np.arange(100.0)})
        path = files.path("abcdef")
        path.write_bytes(damage(path.read_bytes()))
        assert files.read("abcdef") is None
        assert not path.exists()


def test_nothing_but_whole_files_is_left_behind(tmp_path: Path) -> None:
    files = SketchFiles(tmp_path)
    files.write("abcdef", {"count": np.zeros(3)})
    files.write("abcdef", {"count": np.ones(3)})
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [files.path("abcdef")]
