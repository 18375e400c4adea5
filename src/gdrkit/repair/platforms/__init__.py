"""How each step is carried out on Debian and Ubuntu, the RHEL family, and SUSE."""

from __future__ import annotations
