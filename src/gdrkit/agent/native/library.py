"""A shared library of which one of several names is found, its functions with their types."""

from __future__ import annotations

from typing import Any, Callable, Iterable, List, Mapping, Tuple

Prototypes = Mapping[str, Tuple[Any, Tuple[Any, ...]]]
"""By function, what it returns and what it takes."""


def load(names: Iterable[str], prototypes: Prototypes, kind: Callable[[str], Any]) -> Tuple[Any, str]:
    """The first that is there, by `kind`, and its name. Raises OSError: what the linker said of the first
    name.

    A function that it lacks stays an AttributeError of whoever asks for it."""
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
    """What a probe says of a library that it cannot use."""
    # The linker's words for "not there" are what bundles take for a failed command; so in ours.
    return str(error).replace("No such file or directory", "not installed")
