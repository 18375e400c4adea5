"""A home on the other machine that others can write to: ssh starts Python there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gdrkit.evidence.ssh import _BOOTSTRAP, TARGET, _command


@pytest.mark.parametrize("module", ["binascii", "tempfile", "argparse", "json"])
@pytest.mark.parametrize("probe", [False, True])
def test_a_module_in_the_folder_that_ssh_starts_in_is_not_imported(tmp_path, module, probe):
    (tmp_path / f"{module}.py").write_text("print('it ran')\n")
    match = TARGET.fullmatch("ssh://node1")
    assert match is not None
    words = _command(match, probe)[-1].split()
    program = _BOOTSTRAP.partition("try:")[0] + f"import {module}\n"
    run = subprocess.run(
        [sys.executable, *words[1:]], cwd=tmp_path, input=program, capture_output=True, text=True, check=True
    )

    assert run.stdout == ""
