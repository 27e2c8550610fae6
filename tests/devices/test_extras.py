"""Extras are compared with what is installed, from requirement lines as metadata has them."""

from perfmodel.devices.extras import EXTRAS, installed_version, read_extras

LINES = [
    "numpy>=1.26",
    'pytest>=8; extra == "train"',
    'no-such-library-here[fast]>=1.0; extra == "train"',
    "psycopg[binary]>=3.2; python_version > '3' and extra == 'postgres'",
    'perfmodel[serve,train]; extra == "dev"',
]


def test_present_and_missing_libraries_are_told_apart():
    extras = {extra.name: extra for extra in read_extras(LINES)}
    train = extras["train"]
    assert train.installed == (("pytest", installed_version("pytest")),)
    assert train.missing == ("no-such-library-here",)
    assert not train.complete
    assert train.install_command == "pip install 'perfmodel[train]'"


def test_an_extra_that_asks_for_nothing_of_its_own_is_complete():
    extras = {extra.name: extra for extra in read_extras(LINES)}
    assert extras["dev"].complete and extras["serve"].complete


def test_every_extra_is_listed_in_order():
    assert [extra.name for extra in read_extras(LINES)] == list(EXTRAS)


def test_a_version_is_read_without_importing():
    assert installed_version("pytest")
    assert installed_version("no-such-library-here") is None
