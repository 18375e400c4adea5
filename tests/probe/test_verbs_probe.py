"""The verbs probe against a libibverbs made of Python, and alone on this machine."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from errno import EBADF, EOPNOTSUPP, EPERM
from pathlib import Path
from typing import Any

import pytest

from gdrkit.probe import verbs_probe


class Verbs:
    """One device; registering a dma-buf fails with this errno, opening it with that."""

    def __init__(self, registering: int = EBADF, opening: int = 0) -> None:
        self.registering, self.opening = registering, opening
        self.offered: list[int] = []
        self.closed: list[str] = []

    def ibv_get_device_list(self, count: Any) -> list[int]:
        count._obj.value = 1
        return [7]

    def ibv_free_device_list(self, devices: list[int]) -> None:
        self.closed.append("list")

    def ibv_get_device_name(self, device: int) -> bytes:
        return b"mlx5_0"

    def ibv_open_device(self, device: int) -> int | None:
        ctypes.set_errno(self.opening)
        return None if self.opening else 8

    def ibv_close_device(self, context: int) -> int:
        self.closed.append("device")
        return 0

    def ibv_alloc_pd(self, context: int) -> int:
        return 9

    def ibv_dealloc_pd(self, domain: int) -> int:
        self.closed.append("pd")
        return 0

    def ibv_reg_dmabuf_mr(
        self, domain: int, offset: int, length: int, iova: int, fd: int, access: int
    ) -> None:
        self.offered.append(fd)
        ctypes.set_errno(self.registering)


@pytest.mark.parametrize("errno", [EBADF, EOPNOTSUPP])
def test_the_errno_of_the_registration_is_the_answer(errno):
    verbs = Verbs(registering=errno)

    assert verbs_probe.ask(verbs)[-1] == {
        "call": "ibv_reg_dmabuf_mr", "argument": "fd=-1", "device": "mlx5_0", "result": errno, "value": None,
    }  # fmt: skip
    assert verbs.offered == [-1]
    assert verbs.closed == ["pd", "device", "list"]


def test_a_device_that_may_not_be_opened_says_why():
    calls = verbs_probe.ask(Verbs(opening=EPERM))

    assert (calls[-1]["call"], calls[-1]["result"]) == ("ibv_open_device", EPERM)


def test_alone_on_this_machine_it_answers_in_json():
    child = subprocess.run(
        [sys.executable, "-I", Path(verbs_probe.__file__)], capture_output=True, check=True
    )
    report = json.loads(child.stdout)

    assert report["schema"] == "gdrkit.probe.verbs/1"
    assert report["error"] or report["calls"][0]["call"] == "ibv_get_device_list"
