"""Some scenarios of the lab: break a guest, run `gdr fix --apply`, the real modprobe, and `gdr fix --undo`.

`python -m lab fix` runs all of them. Needs QEMU, like `test_boot.py`.
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


def test_a_broken_guest_is_repaired_and_restored_byte_for_byte() -> None:
    found = judge(kernel("6.1-amd64"), ("blacklisted-and-unsigned", "unsigned-xz"))
    assert found == [("unsigned-xz", []), ("blacklisted-and-unsigned", [])]
