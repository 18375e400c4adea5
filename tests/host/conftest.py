"""A real sosreport, made here and now."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PLUGINS = "kernel,pci,hardware,host,process,systemd,boot,filesys"


@pytest.fixture(scope="session")
def sosreport(tmp_path_factory) -> str:
    """A tarball that Debian's sosreport made of this machine, with the plugins that matter to us."""
    if shutil.which("sos") is None or os.geteuid() != 0:
        if os.environ.get("CI") == "true":
            pytest.fail("CI must make a real sosreport: as root, after apt-get install sosreport")
        pytest.skip("no real sosreport here; run as root after: apt-get install sosreport")
    folder = tmp_path_factory.mktemp("sos")
    command = ["sos", "report", "--batch", "--tmp-dir", str(folder), "-o", PLUGINS]
    subprocess.run(command, capture_output=True, check=True, timeout=300)
    return str(next(Path(folder).glob("sosreport-*.tar.*[!5]")))
