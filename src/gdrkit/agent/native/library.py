"""Load a shared library by the first of several names, and set the types of its functions."""

from __future__ import annotations

from typing import Any, Callable, Iterable, List, Mapping, Tuple

Prototypes = Mapping[str, Tuple[Any, Tuple[Any, ...]]]
"""By function: the return type and the types of the arguments."""


def load(names: Iterable[str], prototypes: Prototypes, kind: Callable[[str], Any]) -> Tuple[Any, str]:
    """The first library that `kind` can load, and its name. Raises OSError, the one for the first name.

    Using a function that the library does not have raises AttributeError."""
    refused: List[OSError] = []
    for name in names:
        try:
            library = kind(name)
        except OSError as error:
            refused.append(error)
            continue
        for function, types in prototypes.items():
            if hasattr(library, function):
                found = getattr(library, function)
                found.restype, found.argtypes = types
        return library, name
    raise refused[0]


def complaint(error: Exception) -> str:
    """The error message of a probe for a library that it cannot load."""
    # Readers of bundles take the linker's "No such file or directory" for the error message of a command.
    return str(error).replace("No such file or directory", "not installed")
