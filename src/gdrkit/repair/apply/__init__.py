"""The only writer: a journal before each change, copies of what was there, and the way back."""

from __future__ import annotations
