"""Faults of modprobe.d and nccl.conf, each beside a line that differs in one thing and is right."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from gdrkit.repair.config.boot_check import kind_of
from gdrkit.repair.config.check import check


def codes(text: str, name: str) -> list[tuple[int, str]]:
    return [(fault.line, fault.code) for fault in check(text.encode(), name).faults]


@pytest.mark.parametrize(
    ("wrong", "found", "right"),
    [
        ("export NCCL_DEBUG=INFO\n", [(1, "wrong-value")], "NCCL_DEBUG=INFO\n"),
        ("NCCL_DEBUG =INFO\n", [(1, "wrong-value")], "NCCL_DEBUG=INFO\n"),
        ('NCCL_IB_HCA="mlx5_0"\n', [(1, "wrong-value")], "NCCL_IB_HCA==mlx5_0\n"),
        ("NCCL_IB_TC=41 # lossless\n", [(1, "wrong-value")], "# lossless\nNCCL_IB_TC=41\n"),
        ("NCCL_IB_TC 41\n", [(1, "wrong-value")], "\n#NCCL_IB_TC 41\nNCCL_IB_TC=41\n"),
        ("NCCL_IB_TC=41\nNCCL_IB_TC=42\n", [(2, "set-twice")], "NCCL_IB_TC=41\nNCCL_IB_SL=42\n"),
        ("NCCL_DEBUG=INFO\r\n", [(1, "wrong-value")], "NCCL_DEBUG=INFO\n"),
        ("NCCL_IB_HCA=mlx5_0,^mlx5_1\n", [(1, "settings-contradict")], "NCCL_IB_HCA=^mlx5_0,mlx5_1\n"),
        ("NCCL_P2P_DISABLE=1\nNCCL_P2P_LEVEL=SYS\n", [(2, "settings-contradict")],
         "NCCL_P2P_DISABLE=0\nNCCL_P2P_LEVEL=SYS\n"),
    ],
)  # fmt: skip
def test_nccl_reads_lines_as_it_does(wrong, found, right):
    assert codes(wrong, "/etc/nccl.conf") == found
    assert codes(right, "/etc/nccl.conf") == []


def test_what_nothing_reads_turns_nothing_off():
    assert codes("export NCCL_DMABUF_ENABLE=0\n", "nccl.conf") == [(1, "wrong-value")]
    assert codes("NCCL_DMABUF_ENABLE=0\n", "nccl.conf") == [(1, "dmabuf-disabled-by-env")]


@pytest.mark.parametrize(
    ("name", "first", "kind"),
    [
        ("/etc/nccl.conf", "", "nccl.conf"),
        ("node7-nccl.conf", "", "nccl.conf"),
        ("settings.txt", "# /etc/nccl.conf of all nodes\n", "nccl.conf"),
        ("settings.sh", "# source it, it is not /etc/nccl.conf\n", ""),
        ("nccl.conf.sh", "", ""),
    ],
)
def test_a_file_is_nccl_conf_by_its_name_or_a_first_line_that_names_it(name: str, first: str, kind: str):
    assert kind_of(name, f"{first}export NCCL_IB_HCA=mlx5_0\n") == kind


@pytest.mark.parametrize("line", ['echo "{}"', "echo '{}'", "printf '%s\\n' '{}'"])
def test_what_a_task_prolog_prints_is_set(line: str):
    """Slurm sets it for each task; a line that writes into a file sets nothing there."""
    text = f"#!/bin/sh\n{line.format('export NCCL_IB_DISABLE=1')}\n"
    assert codes(text, "task_prolog.sh") == [(2, "ib-disabled-by-env")]
    assert codes("#!/bin/sh\necho 'print NCCL_IB_DISABLE=1'\n", "task_prolog.sh") == [(1, "unreadable")]


def test_a_network_plugin_may_read_what_the_own_transport_does_not():
    off = "NCCL_IB_DISABLE=1\nNCCL_IB_TC=41\n"
    assert (2, "settings-contradict") in codes(off, "nccl.conf")
    assert codes(f"{off}NCCL_NET_PLUGIN=spcx\n", "nccl.conf") == [(1, "ib-disabled-by-env")]


@pytest.mark.parametrize(
    ("wrong", "found", "right"),
    [
        ("optoins nvidia a=1\noptions nvidia b=1\n", [(1, "wrong-value")], "options nvidia a=1 b=1\n"),
        ("blacklist nvidia-peermem\n", [(1, "module-blacklisted")], "blacklist nouveau\n"),
        ("install nvidia_peermem /bin/false\n", [(1, "install-override")], "install nouveau /bin/false\n"),
        ("options nvidia NVreg_RegistryDwords=\"A=1\"\noptions nvidia NVreg_RegistryDwords=\"B=1\"\n",
         [(2, "set-twice")], "options nvidia NVreg_RegistryDwords=\"A=1;B=1\"\noptions nvidia_uvm a=1\n"),
        ("options nvidia NVreg_EnableStreamMemOps=1\n", [(1, "unknown-key")],
         "options nvidia NVreg_EnableStreamMemOPs=1\noptions nvidia NVreg_EnableGpuFirmware=0\n"),
    ],
)  # fmt: skip
def test_faults_of_modprobe_d(wrong, found, right):
    assert codes(wrong, "etc/modprobe.d/a.conf") == found
    assert codes(right, "etc/modprobe.d/a.conf") == []
    assert check(right.encode(), "-").documents[0].kind == "modprobe.d"


@pytest.mark.parametrize(
    ("known", "others", "kind"), [(1, 2, ""), (1, 1, ""), (2, 1, "modprobe.d"), (0, 0, "")]
)
def test_most_lines_of_modprobe_d_are_directives(known: int, others: int, kind: str):
    text = "# options x y=1\n" + "blacklist nouveau\n" * known + "another line\n" * others
    assert kind_of("notes.txt", text) == kind


def test_prose_and_scripts_are_not_modprobe_d():
    assert check(b"install the driver\nthen reboot\nand look\n", "readme").documents == ()
    assert codes("export NCCL_DEBUG=INFO\nexport NCCL_DEBUG=WARN\n", "job.sh") == []


BARS = ["blacklist mlx5_ib", "install nvidia /bin/false", "options nvidia NVreg_EnableResizableBar=1"]
BUTANE = """variant: flatcar
version: 1.0.0
storage:
  files:
    - path: {path}
      contents:
        inline: |
          {lines}
"""
MACHINE_CONFIG = """apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {{name: bars, labels: {{machineconfiguration.openshift.io/role: worker}}}}
spec:
  config:
    ignition: {{version: 3.2.0}}
    storage:
      files:
      - path: {path}
        contents:
          source: data:,{quoted}
"""
CLOUD_CONFIG = """#cloud-config
write_files:
- path: {path}
  content: |
    {lines}
"""
FOUND = ["module-blacklisted", "install-override"]


@pytest.mark.parametrize(
    ("form", "lines"), [(BUTANE, [8, 9]), (MACHINE_CONFIG, [11, 11]), (CLOUD_CONFIG, [5, 6])]
)
@pytest.mark.parametrize("path", ["/etc/modprobe.d/x.conf", "/etc/other.d/x.conf"])
def test_a_file_of_modprobe_that_an_object_writes_is_judged_as_the_file_alone(form, lines, path):
    written = re.search(r"\n( *)\{lines\}", form)
    between = "\n" + (written[1] if written else "")
    text = form.format(path=path, lines=between.join(BARS), quoted=quote("\n".join(BARS)))
    found = [(fault.line, fault.code) for fault in check(text.encode(), "x").faults]

    assert sorted(found) == (sorted(zip(lines, FOUND, strict=True)) if "modprobe" in path else [])
