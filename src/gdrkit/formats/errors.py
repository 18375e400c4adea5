"""What every parser raises."""


class FormatError(ValueError):
    """Bytes that are not what they should be. Raised by parsers, which know no file names."""
