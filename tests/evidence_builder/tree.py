"""A file tree in memory, and what was looked for in vain, before it is written as a folder or an archive."""

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
        """Write a file; later writers win, so that a node's own text beats what the generator would say."""
        self.files[path] = content.encode() if isinstance(content, str) else content

    def line(self, path: str, content: object) -> None:
        """A file of one line, as sysfs and procfs give it."""
        self.file(path, f"{content}\n")

    def link(self, path: str, to: str) -> None:
        """A relative symbolic link at `path` to another path of the tree, as sysfs makes them."""
        self.links[path] = posixpath.relpath(to, posixpath.dirname(path))

    def folder(self, path: str) -> None:
        """A folder that may be empty."""
        self.folders.add(path)

    def drop(self, path: str) -> None:
        """Take away a file, a link or everything below a folder."""
        for held in (self.files, self.links):
            for name in [name for name in held if name == path or name.startswith(path + "/")]:
                del held[name]
        self.folders = {name for name in self.folders if name != path and not name.startswith(path + "/")}

    def listing(self) -> dict[str, list[str]]:
        """Every folder and the names in it."""
        names: dict[str, set[str]] = {folder: set() for folder in self.folders}
        for path in (*self.files, *self.links, *self.folders):
            while path:
                above, name = posixpath.split(path)
                names.setdefault(above, set()).add(name)
                path = above
        return {folder: sorted(inside) for folder, inside in sorted(names.items()) if folder}

    def write(self, folder: Path) -> None:
        """Lay everything out below a folder."""
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
