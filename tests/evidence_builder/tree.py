"""A file tree in memory, with the paths recorded as absent, before it is written as a folder or an
archive."""

from __future__ import annotations

import posixpath
from pathlib import Path


class Tree:
    """Files, links and folders by path without leading slash."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.folders: set[str] = set()
        self.denied: dict[str, str] = {}  # path -> what the kernel said
        self.reducible: set[str] = set()  # modules of which a collector keeps what a loader looks at

    def file(self, path: str, content: str | bytes) -> None:
        """Add a file. It replaces an earlier one, so that a node's own text replaces the generated one."""
        self.files[path] = content.encode() if isinstance(content, str) else content

    def line(self, path: str, content: object) -> None:
        """Add a file of one line, as in sysfs and procfs."""
        self.file(path, f"{content}\n")

    def link(self, path: str, to: str) -> None:
        """Add a relative symbolic link at `path` to another path of the tree, as in sysfs."""
        self.links[path] = posixpath.relpath(to, posixpath.dirname(path))

    def folder(self, path: str) -> None:
        """Add a folder, which may be empty."""
        self.folders.add(path)

    def drop(self, path: str) -> None:
        """Remove a file, a link or everything below a folder."""
        for held in (self.files, self.links):
            for name in [name for name in held if name == path or name.startswith(path + "/")]:
                del held[name]
        self.folders = {name for name in self.folders if name != path and not name.startswith(path + "/")}

    def listing(self) -> dict[str, list[str]]:
        """Every folder with the names in it."""
        names: dict[str, set[str]] = {folder: set() for folder in self.folders}
        for path in (*self.files, *self.links, *self.folders):
            while path:
                above, name = posixpath.split(path)
                names.setdefault(above, set()).add(name)
                path = above
        return {folder: sorted(inside) for folder, inside in sorted(names.items()) if folder}

    def write(self, folder: Path) -> None:
        """Write everything below a folder."""
        made: set[Path] = set()
        for path in sorted(self.folders):
            (folder / path).mkdir(parents=True, exist_ok=True)
        for path, content in self.files.items():
            at = folder / path
            if at.parent not in made:
                at.parent.mkdir(parents=True, exist_ok=True)
                made.add(at.parent)
            at.write_bytes(content)
        for path, target in self.links.items():
            at = folder / path
            at.parent.mkdir(parents=True, exist_ok=True)
            if not at.is_symlink():
                at.symlink_to(target)
