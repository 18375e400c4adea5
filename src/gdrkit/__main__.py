"""`python -m gdrkit` is the command `gdr`."""

import sys

from gdrkit.cli import main

sys.exit(main())
