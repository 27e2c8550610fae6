"""``python -m perfmodel``: the command line, where no console script is on the path."""

from perfmodel.cli import main

if __name__ == "__main__":
    main()
