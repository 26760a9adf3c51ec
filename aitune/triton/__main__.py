"""``python -m aitune.triton`` is a doorbell: it calls the command line."""

import sys

from aitune.cli import main

if __name__ == "__main__":
    sys.exit(main())
