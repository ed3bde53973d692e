"""``python -m tpnn``: the command line."""

import sys

from tpnn.cli import main

if __name__ == "__main__":
    sys.exit(main())
