"""A host on which NCCL lists fewer NICs than on the others is named, and no other one is."""

from __future__ import annotations

import re

import pytest

from gdrkit.jobs.document import document, exit_code
from gdrkit.jobs.hosts import by_host, contrast, next_steps
from gdrkit.jobs.text import text
from tests.jobs.large_job import large_job
from tests.jobs.test_samples import analysed


def without_nic(log: str, *hosts: str, number: int = 5) -> str:
    """The log, where hosts lack a NIC: its GPU uses the next one, and later ones have a lower number."""
    lines = []
    for line in log.splitlines(keepends=True):
        if line.startswith(hosts):
            line = re.sub(rf"\[{number}\]mlx5_{number}:1/IB ", "", line)
            line = re.sub(r"\[(\d)\]mlx5_", lambda m: f"[{int(m[1]) - (int(m[1]) > number)}]mlx5_", line)
            line = re.sub(r"(NET/IB/|HCA )(\d)", lambda m: f"{m[1]}{int(m[2]) - (int(m[2]) > number)}", line)
            if f"'mlx5_{number}'" in line:
                continue
        lines.append(line)
    return "".join(lines)


def page(log: str) -> str:
    return text(document(analysed(log)), width=300)


def test_the_host_that_lacks_a_nic_is_named_with_what_its_ranks_share():
    found = document(analysed(without_nic(large_job(4), "gpu03")))
    (one,) = found.short_nic_lists

    assert (one.hosts, one.missing, one.usual, one.usual_hosts) == (("gpu03",), ("mlx5_5",), 8, 3)
    assert one.shared == ("mlx5_6",)
    assert one.codes == ("port-down", "rdma-device-not-in-container", "hca-not-selected")
    assert found.verdict.state == "active" and exit_code(found) == 1


def test_the_page_does_not_advise_to_keep_to_a_rail_that_the_host_lacks():
    shown = page(without_nic(large_job(4), "gpu03"))

    assert "gpu03 lists 7 NICs, 3 other hosts list 8: mlx5_5 is missing; ranks there share mlx5_6" in shown
    assert "next: `ibv_devinfo -d mlx5_5` on gpu03 shows whether a port is active" in shown
    assert "NCCL_CROSS_NIC=0 cannot keep it on one: a host does not list mlx5_5" in shown


def test_a_setting_of_that_host_alone_is_the_only_cause():
    log = without_nic(large_job(4), "gpu03")
    setting = "gpu03:4116:4116 [0] NCCL INFO NCCL_IB_HCA set by environment to ^mlx5_5\n"
    (one,) = analysed(setting + log).short_nic_lists

    assert (one.codes, one.selected) == (("hca-not-selected",), "^mlx5_5")
    step = "NCCL_IB_HCA=^mlx5_5 on gpu03 leaves out mlx5_5: unset it there, or set it as on the other hosts"
    assert f"next: {step}" in page(setting + log)
    slow = document(analysed(setting + without_nic(large_job(4, staged=("gpu03",)), "gpu03")))
    assert step in next_steps(slow, by_host(slow))
    assert "no setting that differs" not in contrast(slow, by_host(slow))


def test_a_setting_that_selects_the_missing_nic_is_no_cause():
    log = without_nic(large_job(4), "gpu03")
    setting = "gpu03:4116:4116 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5\n"
    (one,) = analysed(setting + log).short_nic_lists

    assert (one.codes, one.selected) == (("port-down", "rdma-device-not-in-container"), "")


@pytest.mark.parametrize(
    "log",
    [
        large_job(4),
        without_nic(large_job(4), "gpu03", "gpu04"),  # two kinds of machines
        without_nic(large_job(4), "gpu01", "gpu02", "gpu03", "gpu04"),
    ],
)
def test_hosts_that_list_the_same_or_are_of_another_kind_are_not(log: str):
    assert analysed(log).short_nic_lists == ()


def test_of_two_hosts_the_one_with_the_shorter_list_is_named():
    (one,) = analysed(without_nic(large_job(2), "gpu02")).short_nic_lists

    assert (one.hosts, one.usual_hosts) == (("gpu02",), 1)


def test_names_that_the_others_do_not_have_are_no_shorter_list():
    log = "".join(
        line.replace("mlx5_", "rocep") if line.startswith("gpu03") else line
        for line in without_nic(large_job(4), "gpu03").splitlines(keepends=True)
    )

    assert analysed(log).short_nic_lists == ()


TWO = "mlx5_0,mlx5_1"


def on_few_nics(log: str, setting: str, nics: int = 2) -> str:
    """The log, where every rank lists the first NICs alone, after it prints a setting."""
    listed = " ".join(f"[{number}]mlx5_{number}:1/IB" for number in range(nics))
    lines = []
    for line in log.splitlines(keepends=True):
        frame, mark, _ = line.partition("NET/IB : Using ")
        if mark and setting:
            lines.append(f"{frame}NCCL_IB_HCA set to {setting}\n")
        lines.append(f"{frame}{mark}{listed} [RO]; OOB eth0:10.0.0.1<0>\n" if mark else line)
    return re.sub(r"NET/IB/(\d)", lambda m: f"NET/IB/{int(m[1]) % nics}", "".join(lines))


@pytest.mark.parametrize("setting", [TWO, f"={TWO}", "mlx5_0:1,mlx5_1:1"])
def test_gpus_that_share_the_nics_of_a_setting_are_counted(setting: str):
    log = on_few_nics(large_job(2), setting)
    (one,) = document(analysed(log)).shared_nics

    assert (one.hosts, one.gpus, one.nics, one.keeps) == (("gpu01", "gpu02"), 8, ("mlx5_0", "mlx5_1"), True)
    shown = page(log)
    assert (
        "on each of gpu01, gpu02, 8 GPUs share 2 NICs (mlx5_0, mlx5_1): NCCL_IB_HCA is set so (log0:2)"
    ) in shown
    assert "`ibv_devices` on gpu01 shows whether it has more; if so: `gdr codes hca-not-selected`" in shown
    assert exit_code(document(analysed(log))) == 0  # whether the hosts have more is open


@pytest.mark.parametrize("setting", ["mlx5", "^mlx5_bond_0"])
def test_a_setting_that_names_no_nic_is_shown_as_it_is(setting: str):
    log = on_few_nics(large_job(2), setting)
    (one,) = document(analysed(log)).shared_nics

    assert not one.keeps
    assert f"8 GPUs share 2 NICs (mlx5_0, mlx5_1): NCCL_IB_HCA is {setting} (log0:2)" in page(log)


def test_machines_with_fewer_nics_than_gpus_are_described_without_a_step():
    shown = page(on_few_nics(large_job(2), "", nics=4))

    assert "8 GPUs share 4 NICs (mlx5_0, mlx5_1, mlx5_2, mlx5_3) (log0:2)" in shown
    assert "ibv_devices" not in shown


@pytest.mark.parametrize(
    "log",
    [
        large_job(2),
        on_few_nics(large_job(1), TWO),  # needs no network
        on_few_nics(large_job(2), "mlx5_0", nics=1).replace("mlx5_0", "mlx5_{}"),
    ],
)
def test_ranks_with_a_nic_each_share_none(log: str):
    """Also where each rank is given its own one."""
    own = re.sub(r"(\[(\d)\] NCCL INFO N\S+ .*)mlx5_\{\}", r"\1mlx5_\2", log)

    assert analysed(own).shared_nics == ()
