"""A real sosreport of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PLUGINS = "kernel,pci,hardware,host,process,systemd,boot,filesys"


@pytest.fixture(scope="session")
def sosreport(tmp_path_factory) -> str:
    """The path of a sosreport tarball of this machine, with the plugins that gdrkit reads."""
    is_root = os.geteuid() == 0
    in_ci = os.environ.get("CI") == "true"
    if shutil.which("sos") is None or not (is_root or in_ci):
        pytest.skip("needs sos and root: apt-get install sosreport, and run as root")
    folder = tmp_path_factory.mktemp("sos")
    sudo = [] if is_root else ["sudo", "-n"]
    command = [*sudo, "sos", "report", "--batch", "--tmp-dir", str(folder), "-o", PLUGINS]
    subprocess.run(command, capture_output=True, check=True, timeout=300)
    report = next(Path(folder).glob("sosreport-*.tar.*[!5]"))
    if not is_root:
        subprocess.run([*sudo, "chmod", "a+r", report], check=True)
    return str(report)
