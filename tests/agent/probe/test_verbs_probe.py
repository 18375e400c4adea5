"""The verbs probe with a simulated libibverbs, and on this machine."""

from __future__ import annotations

import ctypes
import json
import re
import struct
import subprocess
import sys
from errno import EBADF, ENOMEM, EOPNOTSUPP, EPERM
from pathlib import Path
from typing import Any

import pytest

from gdrkit.agent.probe import verbs_probe
from gdrkit.agent.probe.program import program
from tests.agent.probe.traced import Traced


class Verbs:
    """One device; registering a dma-buf fails with this errno, opening it with that."""

    def __init__(self, registering: int = EBADF, opening: int = 0, host: int = 0) -> None:
        self.registering, self.opening, self.host = registering, opening, host
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

    def ibv_query_device(self, context: int, attributes: int) -> int:
        ctypes.memset(attributes + 227, 1, 1)  # phys_port_cnt
        return 0

    def ibv_query_port(self, context: int, port: int, attributes: int) -> int:
        state, mtu, gids, lid, ethernet = 4, 5, 3, 17, 2
        words = struct.pack("=IIIi18xH10xB", state, mtu, mtu, gids, lid, ethernet)
        ctypes.memmove(attributes, words, len(words))
        return 0

    def ibv_query_gid(self, context: int, port: int, index: int, gid: Any) -> int:
        if index != 1:
            gid[0:16] = bytes.fromhex("fe80" + "00" * 12) + bytes((port, index))
        return 0

    def ibv_reg_mr(self, domain: int, address: int, size: int, access: int) -> int | None:
        ctypes.set_errno(self.host)
        return None if self.host else 11

    def ibv_dereg_mr(self, region: int) -> int:
        self.closed.append("region")
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
    assert verbs.closed == ["region", "pd", "device", "list"]


def test_ports_and_gids_are_read_from_the_compilers_places():
    calls = verbs_probe.ask(Verbs())
    port = next(c for c in calls if c["call"] == "ibv_query_port")
    gids = {c["argument"]: c["value"] for c in calls if c["call"] == "ibv_query_gid"}

    assert port["value"] == "state=4 active_mtu=5 gid_tbl_len=3 lid=17 link_layer=2"
    assert gids == {  # the second entry is empty
        "1 0": "fe80:0000:0000:0000:0000:0000:0000:0100", "1 2": "fe80:0000:0000:0000:0000:0000:0000:0102",
    }  # fmt: skip


@pytest.mark.parametrize("errno", [0, ENOMEM])
def test_a_page_of_host_memory_is_registered_and_freed(errno):
    verbs = Verbs(host=errno)
    calls = verbs_probe.ask(verbs)

    assert [c["result"] for c in calls if c["call"] == "ibv_reg_mr"] == [errno]
    assert ("region" in verbs.closed) is (errno == 0)


def test_an_errno_is_recorded_whether_returned_or_set():
    calls = verbs_probe.VerbsCalls()
    ctypes.set_errno(EPERM)

    assert not calls.answered("ibv_query_port", "1", "mlx5_0", ENOMEM)
    assert not calls.answered("ibv_query_gid", "1 0", "mlx5_0", -1)
    assert calls.answered("ibv_query_device", "", "mlx5_0", 0)
    assert [c["result"] for c in calls.made] == [ENOMEM, EPERM, 0]


def test_the_errno_of_a_device_that_cannot_be_opened_is_recorded():
    calls = verbs_probe.ask(Verbs(opening=EPERM))

    assert (calls[-1]["call"], calls[-1]["result"]) == ("ibv_open_device", EPERM)


def test_recorded_answers_of_a_software_device():
    """Recorded in a guest: Debian 12, rdma-core 44, rdma_rxe of Linux 6.1 over a veth pair with 10.0.0.1.
    ibv_devinfo said the same of ports, state and GIDs; fd=-1 was EOPNOTSUPP, for that driver takes no
    dma-buf."""
    calls = json.loads((Path(__file__).parent / "rxe.json").read_text())["calls"]
    answers = {(c["call"], c["argument"]): (c["result"], c["value"]) for c in calls}

    assert answers["ibv_query_device", ""] == (0, 1)
    assert answers["ibv_query_port", "1"] == (
        0, "state=4 active_mtu=3 gid_tbl_len=1024 lid=0 link_layer=2",
    )  # fmt: skip
    assert answers["ibv_query_gid", "1 1"] == (0, "0000:0000:0000:0000:0000:ffff:0a00:0001")
    assert answers["ibv_reg_mr", "host"] == (0, None)
    assert answers["ibv_reg_dmabuf_mr", "fd=-1"] == (EOPNOTSUPP, None)


def test_alone_on_this_machine_it_answers_in_json():
    child = subprocess.run(
        [sys.executable, "-I", "-c", program("verbs_probe")], capture_output=True, check=True
    )
    assert child.stdout.endswith(b"}\n")
    report = json.loads(child.stdout)

    assert report["schema"] == "gdrkit.probe.verbs/1"
    assert report["error"] or report["calls"][0]["call"] == "ibv_get_device_list"


def test_every_call_in_order():
    lines: list[str] = []
    verbs_probe.ask(Traced(Verbs(), lines))
    counted = [f"ibv_query_gid(8, 1, {index}, [16])" for index in range(3)]
    assert [re.sub(r"\d{6,}", "N", line) for line in lines] == [
        "ibv_get_device_list(&)", "ibv_get_device_name(7)", "ibv_open_device(7)", "ibv_query_device(8, N)",
        "ibv_query_port(8, 1, N)", *counted, "ibv_alloc_pd(8)", "ibv_reg_mr(9, N, 4096, 7)",
        "ibv_dereg_mr(11)", "ibv_reg_dmabuf_mr(9, 0, 0, 0, -1, 0)", "ibv_dealloc_pd(9)",
        "ibv_close_device(8)", "ibv_free_device_list([7])",
    ]  # fmt: skip
