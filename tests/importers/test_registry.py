import pytest

from perfmodel.errors import UnknownWordError
from perfmodel.importers.registry import FORMATS, import_format


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_its_reader(name: str) -> None:
    assert callable(import_format(name).reader())


def test_a_misspelt_format_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownWordError, match="Did you mean 'lambda'"):
        import_format("lamda")
