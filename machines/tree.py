"""A file tree in memory, its manifest, and how it is written as an unpacked bundle."""

from __future__ import annotations

import json
import os
import posixpath
from pathlib import Path
from typing import Any


class Tree:
    """Files, links and folders by path without a leading slash; commands by the file of their output."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.folders: set[str] = set()
        self.commands: dict[str, tuple[tuple[str, ...], int, str, str]] = {}
        self.hidden: dict[str, str] = {}  # path -> status, for what the collector could not see

    def file(self, path: str, content: str | bytes) -> None:
        self.files[path] = content.encode() if isinstance(content, str) else content

    def line(self, path: str, content: object) -> None:
        self.files[path] = f"{content}\n".encode()

    def link(self, path: str, to: str) -> None:
        """Add a relative link to another path of the tree, as in sysfs."""
        self.links[path] = posixpath.relpath(to, posixpath.dirname(path))

    def command(
        self,
        file: str,
        argv: tuple[str, ...],
        output: str,
        code: int = 0,
        status: str = "found",
        err: str = "",
    ) -> None:
        """Add a command's output; with a status other than found there is none."""
        self.commands[file] = (argv, code, status, err)
        if status == "found":
            self.file(file, output)

    def drop(self, path: str) -> None:
        """Remove a path and everything below it."""
        held: dict[str, Any]
        for held in (self.files, self.links, self.commands):
            for name in [name for name in held if name == path or name.startswith(path + "/")]:
                del held[name]
        self.folders = {name for name in self.folders if name != path and not name.startswith(path + "/")}

    def hide(self, path: str, status: str = "not-collected") -> None:
        """Make the collector have missed a path: it is gone, and the manifest says why."""
        for file in [file for file in self.commands if file == path]:
            argv, code, _, err = self.commands[file]
            self.files.pop(file, None)
            self.commands[file] = (argv, code, "timed-out" if status != "denied" else "denied", err)
            return
        self.drop(path)
        self.hidden[path] = status

    def listing(self) -> dict[str, list[str]]:
        """Every folder with the names in it."""
        names: dict[str, set[str]] = {folder: set() for folder in self.folders}
        for path in (*self.files, *self.links, *self.folders, *self.hidden):
            while path:
                above, name = posixpath.split(path)
                inside = names.setdefault(above, set())
                if name in inside:
                    break
                inside.add(name)
                path = above
        return {folder: sorted(inside) for folder, inside in sorted(names.items()) if folder}

    def manifest(self, head: dict[str, Any]) -> dict[str, Any]:
        """gdr_manifest.json; the format is described in docs/bundles.md."""
        outputs = set(self.commands)
        files: dict[str, Any] = {
            path: {"status": "found"} for path in sorted((*self.files, *self.links)) if path not in outputs
        }
        folders: dict[str, Any] = {
            folder: {"status": "listed", "names": names} for folder, names in self.listing().items()
        }
        for path, status in self.hidden.items():
            (folders if path in folders else files)[path] = {"status": status, "why": ""}
        rows = [
            {"argv": argv, "file": file, "exit_code": code, "status": status, "stderr": err}
            for file, (argv, code, status, err) in sorted(self.commands.items())
        ]
        return {"schema": "gdrkit.bundle/1", **head, "files": files, "folders": folders, "commands": rows}

    def write(self, root: Path, head: dict[str, Any] | None = None) -> Path:
        """Write an unpacked bundle below `root`; without `head`, a folder without a manifest."""
        top = str(root)
        made: set[str] = set()

        def folder(path: str) -> None:
            if path not in made:
                os.makedirs(path, exist_ok=True)
                made.add(path)

        for path in self.folders:
            folder(f"{top}/{path}")
        for path, content in self.files.items():
            folder(f"{top}/{posixpath.dirname(path)}")
            with open(f"{top}/{path}", "wb", buffering=0) as file:
                file.write(content)
        for path, target in self.links.items():
            folder(f"{top}/{posixpath.dirname(path)}")
            if not os.path.lexists(f"{top}/{path}"):
                os.symlink(target, f"{top}/{path}")
        if head is not None:
            Path(top, "gdr_manifest.json").write_text(json.dumps(self.manifest(head)))
        return root
