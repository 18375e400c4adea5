"""The only code that changes a machine: journals and backs up before each change, and undoes runs."""

from __future__ import annotations
