"""The outcome on a node of rules whose problems only messages of programs show."""

from __future__ import annotations

from gdrkit.rules.rule import NotApplicable

SHOWN_BY_MESSAGES = NotApplicable("only a message of a program shows it")
"""No file of a node decides such a code, so the node is not judged by it. A line in a text is evidence."""
