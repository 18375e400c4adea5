"""The table of sources: what it covers, and where the output of commands goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.agent.collect import sources
from gdrkit.evidence import Command
from gdrkit.facts import commands
from tests.agent.collect.commands import covers_command

RELEASE = "6.8.0-45-generic"


@pytest.mark.parametrize(
    "path",
    [
        "proc/modules",
        "proc/self/limits",
        "proc/6141/limits",  # the target of proc/self
        "proc/driver/nvidia/gpus/0000:1b:00.0/information",
        "sys/bus/pci/devices",
        "sys/bus/pci/devices/0000:1b:00.0/config",
        "sys/devices/pci0000:1a/0000:1a:01.0/0000:1b:00.0/config",
        "sys/devices/pci0000:1a/0000:1a:01.0/0000:1b:00.0/infiniband/mlx5_0/ports/1/gids/0",
        "sys/devices/pci0000:1a/0000:1a:01.0/0000:1b:00.0/net/eth0/mtu",
        "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0",
        "sys/module/nvidia/parameters/NVreg_EnableResizableBar",
        "sys/module/module/parameters/sig_enforce",
        "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
        "sys/kernel/mm/memory_peers/nv_mem/version",
        "etc/modprobe.d/nvidia.conf",
        f"lib/modules/{RELEASE}",
        f"lib/modules/{RELEASE}/updates/dkms/nvidia-peermem.ko.zst",
        f"usr/lib/modules/{RELEASE}/modules.dep",
        f"boot/config-{RELEASE}",
        "usr/src/ofa_kernel/default/Module.symvers",
        f"usr/src/ofa_kernel/x86_64/{RELEASE}/Module.symvers",
        "var/lib/dkms/mlnx-ofed-kernel/24.10/build/Module.symvers",
        "usr/lib/x86_64-linux-gnu/libibverbs.so.1",
    ],
)
def test_the_table_covers_what_facts_open(path):
    assert sources.covers(path)


@pytest.mark.parametrize(
    "path",
    [
        "etc/shadow",
        "etc/modprobe.d.old/x",
        "root/.ssh/id_rsa",
        "proc/1/environ/x",
        "sys/bus/pci/devices/0000:1b:00.0/rom",
        "sys/devices/pci0000:1a/0000:1b:00.0/vpd",
        "home/alice/.bashrc",
        "dev/dri/card0",  # of a folder without contents
        "usr/src/nvidia-580.95/secret.c",
    ],
)
def test_the_table_covers_nothing_else(path):
    assert not sources.covers(path)


def table() -> list[str]:
    """A line for each row of the tables of sources."""
    tables = {name: value for name, value in sorted(vars(sources).items()) if isinstance(value, tuple)}
    rows = [(name, row) for name, value in tables.items() for row in value if isinstance(row, tuple)]
    return [f"{name} {tuple(row)!r}" for name, row in rows]


def test_the_whole_table():
    """Limits, depths and reductions of each row. `test_whole_bundle` says how to write it again."""
    assert table() == Path(__file__).with_name("bundles").joinpath("table.txt").read_text().splitlines()


def test_every_row_has_a_reason():
    rows = (*sources.FILES, *sources.FOLDERS, *sources.COMMANDS, *sources.PROBES, *sources.SYMBOL_TABLES)

    assert all(row.why for row in rows)


READ = {c.argv: c.files for c in vars(commands).values() if isinstance(c, Command) and c.files}
OF_SOS = [row for row in sources.COMMANDS if row.argv in READ and row.plugin != "gdr"]
"""Commands of which facts read the output from a sosreport too."""


@pytest.mark.parametrize("row", OF_SOS, ids=lambda row: " ".join(row.argv)[:40])
def test_output_goes_where_facts_read_it(row):
    assert row.file in READ[row.argv]


def test_files_are_named_as_sos_names_them():
    files = {row.argv: row.file for row in sources.COMMANDS}

    assert files["uname", "-a"] == "sos_commands/kernel/uname_-a"
    assert files["mokutil", "--sb-state"] == "sos_commands/boot/mokutil_--sb-state"
    assert files["ibv_devinfo", "-v"] == "sos_commands/infiniband/ibv_devinfo_-v"


def test_no_two_rows_write_the_same_file():
    files = [row.file for row in (*sources.COMMANDS, *sources.PROBES)]

    assert len(files) == len(set(files))


def test_commands_are_covered_by_their_arguments():
    assert covers_command(("dmesg",))
    assert covers_command(["gdr", "probe", "cuda", "--json"])
    assert not covers_command(("dmesg", "-T"))
