"""What tests choose by that try a part of all cases: every day another one."""

import datetime
import os

SEED = os.environ.get("GDRKIT_SEED") or datetime.date.today().isoformat()
"""Set it to repeat a choice; a failure names it."""
