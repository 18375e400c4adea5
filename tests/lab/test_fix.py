"""A broken guest, `gdr fix --apply` in it, the real modprobe, `gdr fix --undo`: some of the lab's scenarios.

`python -m lab fix` runs all of them. Needs QEMU as `test_boot.py` does.
"""

from __future__ import annotations

import os

import pytest
from lab.cache import apt_command, missing_packages
from lab.fix import judge
from lab.kernels import kernel

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        bool(missing_packages()) and os.environ.get("CI") != "true", reason=f"run: {apt_command()}"
    ),
]


def test_what_was_broken_is_mended_and_put_back_byte_for_byte() -> None:
    found = judge(kernel("6.1-amd64"), ("blacklisted-and-unsigned", "unsigned-xz"))
    assert found == [("unsigned-xz", []), ("blacklisted-and-unsigned", [])]
