"""The modprobe of the machine that runs the tests, on a made-up tree of modules.

It needs no kernel: a dry run prints what it would insert and run, and its complaints."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.module_builder import RELEASE

needs_modprobe = pytest.mark.skipif(
    shutil.which("modprobe") is None or shutil.which("depmod") is None, reason="apt-get install -y kmod"
)


class Machine:
    """A folder of modules with depmod's lists, and a modprobe.d."""

    def __init__(self, root: Path, modules: Mapping[str, bytes], *, conf: str | bytes = "") -> None:
        self.root = root
        self.folder = root / "lib/modules" / RELEASE
        self.conf = root / "etc/modprobe.d"
        self.conf.mkdir(parents=True)
        if conf:
            (self.conf / "a.conf").write_bytes(conf.encode() if isinstance(conf, str) else conf)
        for path, content in modules.items():
            self.file(path).parent.mkdir(parents=True, exist_ok=True)
            self.file(path).write_bytes(content)
        for name in ("modules.order", "modules.builtin"):
            self.file(name).write_text("")
        subprocess.run(["depmod", "-b", root, RELEASE], check=True, capture_output=True)

    def file(self, path: str) -> Path:
        return self.folder / path

    def modprobe(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`modprobe -n -v` of this tree."""
        command = ["modprobe", "-d", self.root, "-S", RELEASE, "-C", self.conf, "-n", "-v", *arguments]
        done = subprocess.run(command, check=False, capture_output=True)
        out, complaints = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
        return subprocess.CompletedProcess(done.args, done.returncode, out, complaints)
