"""Bundles that the collector writes from a machine's file system in a folder."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gdrkit.agent.collect import main
from tests.agent.collect import machine


class Opened:
    """A bundle's members, by path below its top folder, and its manifest."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        with tarfile.open(path) as archive:
            members = archive.getmembers()
            self.tops = {member.name.partition("/")[0] for member in members}
            for member in members:
                name = member.name.partition("/")[2]
                if member.issym():
                    self.links[name] = member.linkname
                else:
                    stream = archive.extractfile(member)
                    assert stream is not None
                    self.files[name] = stream.read()
        self.manifest: dict[str, Any] = json.loads(self.files["gdr_manifest.json"])

    def text(self, path: str) -> str:
        return self.files[path].decode()

    def status(self, path: str) -> str:
        found: str = self.manifest["files"][path]["status"]
        return found

    def everything(self) -> bytes:
        """Contents, paths and link targets, for searches."""
        out = io.BytesIO()
        for path, data in self.files.items():
            out.write(path.encode() + b"\n" + data + b"\n")
        for path, target in self.links.items():
            out.write(f"{path} -> {target}\n".encode())
        out.write(",".join(self.tops).encode())
        return out.getvalue()


@pytest.fixture
def root(tmp_path: Path) -> machine.Root:
    return machine.build(tmp_path / "root")


@pytest.fixture
def collected(root: machine.Root, tmp_path: Path) -> Callable[..., Opened]:
    """A function that collects from the machine with these arguments, and opens the bundle."""

    def collect(*arguments: str) -> Opened:
        path = tmp_path / "bundle.tar.gz"
        assert main(["--root", str(root.folder), "-o", str(path), "--quiet", *arguments]) == 0
        return Opened(path)

    return collect
