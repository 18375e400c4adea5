"""How a step is carried out: on Debian and Ubuntu, on the RHEL family, on SUSE."""

from __future__ import annotations
