"""Links that the kernel saw go down again and again."""

from __future__ import annotations

import pytest

from gdrkit.explain.explain import explain
from gdrkit.explain.outputs.pasted_host import PastedHost

MLX5 = "[{0:8.6f}] mlx5_core 0000:1a:00.0 ens1np0: Link {1}\n"
BNXT = "[{0:8.6f}] bnxt_en 0000:1a:00.0 ens1np0: NIC Link is {2}\n"


def sentence(form: str, downs: int, more: str = "") -> str:
    rows = (
        form.format(100.0 + at, "up" if at % 2 else "down", "Up" if at % 2 else "Down")
        for at in range(2 * downs)
    )
    return explain(PastedHost(f"[root@node07 ~]# dmesg\n{''.join(rows)}{more}")).answer.sentence


@pytest.mark.parametrize("form", [MLX5, BNXT], ids=["mlx5", "bnxt"])
def test_a_link_that_went_down_again_and_again_is_counted(form: str):
    assert "ens1np0 went down 4 times, the last time in line 8" in sentence(form, 4)


def test_of_several_such_links_the_worst_is_named():
    other = MLX5.replace("ens1np0", "ens2np0").format(300.0, "down") * 3
    assert "ens1np0 went down 5 times, the last time in line 10, and 1 more such" in sentence(MLX5, 5, other)


def test_a_cable_that_was_moved_and_a_switch_that_was_restarted_are_no_flaps():
    assert "did not stay up" not in sentence(MLX5, 2)


MODULE = "[{0}.120001] mlx5_core 0000:{1}:00.0: Port module event: module {2}, Cable {3}\n"
OUT, BACK = MODULE.format(10, "5e", 0, "unplugged"), MODULE.format(11, "5e", 0, "plugged")


def test_a_cable_that_is_plugged_in_again_leaves_no_port_down():
    answer = explain(PastedHost(OUT + BACK)).answer

    assert answer.cause is None and not answer.others
    assert (
        "the cable of 0000:5e:00.0, module 0, was unplugged in line 1, and is plugged in again since line 2"
        in (answer.sentence)
    )


@pytest.mark.parametrize(
    "after",
    [
        "",
        BACK + OUT,
        MODULE.format(11, "5f", 0, "plugged"),
        MODULE.format(11, "5e", 1, "plugged"),
        MODULE.format(11, "5e", 0, "error"),
    ],
    ids=["nothing", "out-again", "another-nic", "another-module", "error"],
)
def test_a_cable_that_stays_out_leaves_its_port_down(after: str):
    assert explain(PastedHost(OUT + after)).answer.cause == "port-down"
