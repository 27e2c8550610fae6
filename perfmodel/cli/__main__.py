"""``python -m perfmodel.cli``: the command line where its script is not on the path."""

from perfmodel.cli.app import main

main()
