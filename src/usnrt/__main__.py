"""``python -m usnrt`` is the ``usnrt`` command."""

import sys

from usnrt.cli import main

if __name__ == "__main__":
    sys.exit(main())
