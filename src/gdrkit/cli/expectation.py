"""The file of `--expect`: what a node should have."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gdrkit.facts.expectation import Supplied


def read_expectation(name: str) -> Supplied:
    """The expectation in a file. Raises TargetError, with one line that says what is wrong."""
    from gdrkit.cli.files import read_input, shown
    from gdrkit.evidence.errors import TargetError
    from gdrkit.facts.expectation import Supplied
    from gdrkit.formats.errors import FormatError
    from gdrkit.formats.expectation import LIMIT_BYTES, parse

    content = read_input(name, LIMIT_BYTES, "name a file that gdr expect wrote")
    try:
        return Supplied(shown(name), parse(content.decode()))
    except UnicodeDecodeError:
        reason = "not UTF-8"
    except FormatError as error:
        reason = str(error)
    raise TargetError(
        f"{shown(name)}: {reason}", "gdr expect writes such a file; docs/expect.md describes it"
    )
