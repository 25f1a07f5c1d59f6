"""python -m pith: the pith command."""

import sys

from ._core import _main


def main() -> int:
    return _main(["pith", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
