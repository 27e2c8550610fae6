"""The command line: thin commands over the Python API, each in a file of its own."""

from perfmodel.cli.app import cli, main

__all__ = ["cli", "main"]
