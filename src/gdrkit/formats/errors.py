"""The error that every parser raises."""


class FormatError(ValueError):
    """Input that does not have the expected format. Parsers do not know file names, so it names none."""
