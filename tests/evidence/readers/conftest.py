"""A real sosreport of this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.system_programs import IN_CI, program

PLUGINS = "kernel,pci,hardware,host,process,systemd,boot,filesys"


@pytest.fixture(scope="session")
def sosreport(tmp_path_factory) -> str:
    """The path of a sosreport tarball of this machine, with the plugins that gdrkit reads."""
    is_root = os.geteuid() == 0
    sos = program("sos")
    if not (is_root or IN_CI):
        pytest.skip("needs root, for sos")
    folder = tmp_path_factory.mktemp("sos")
    sudo = [] if is_root else ["sudo", "-n"]
    command = [*sudo, sos, "report", "--batch", "--tmp-dir", str(folder), "-o", PLUGINS]
    subprocess.run(command, capture_output=True, check=True, timeout=300)
    report = next(Path(folder).glob("sosreport-*.tar.*[!5]"))
    if not is_root:
        subprocess.run([*sudo, "chmod", "a+r", report], check=True)
    return str(report)
