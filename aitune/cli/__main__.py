"""``python -m aitune.cli``."""

import sys

from aitune.cli import main

sys.exit(main())
