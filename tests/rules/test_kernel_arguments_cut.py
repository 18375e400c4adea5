"""Kernel arguments that GRUB takes for another command."""

from __future__ import annotations

import pytest

from gdrkit.evidence import MissingReason
from gdrkit.facts.boot_loader import LOADER
from gdrkit.node import Node
from gdrkit.repair.platforms.boot_quoting import for_grub
from gdrkit.repair.platforms.file_contents import grub_argument
from gdrkit.rules.kernel_arguments_cut import kernel_arguments_cut
from tests.memory_host import MemoryHost
from tests.rules.hardware import failed, missing, not_applicable, passed

TWO = "pci=disable_acs_redir=0000:17:01.0;0000:17:02.0"
DEFAULTS = 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX=""\n'
OWN = "etc/default/grub.d/90-gdrkit-acs.cfg"
LATER = {
    "etc/default/grub.d/95-crash.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT crash=1"\n'
}
ENTRY = "boot/loader/entries/abc-5.14.conf"


def on_debian(own: str, *, complete: bool = True, **more: str) -> Node:
    system = {"etc/os-release": "ID=ubuntu\nID_LIKE=debian\n", "etc/default/grub": DEFAULTS}
    others = {path.replace("__", "/"): text for path, text in more.items()}
    return Node(MemoryHost({**system, OWN: own, **LATER, **others}, complete=complete))


def on_rocky(options: str, files: dict[str, str | bytes] | None = None) -> Node:
    base: dict[str, str | bytes] = {
        "etc/os-release": 'ID=rocky\nID_LIKE="rhel centos fedora"\n',
        "etc/default/grub": 'GRUB_CMDLINE_LINUX="crash=1"\n',
        ENTRY: f"title Rocky\nlinux /vmlinuz-5.14\noptions {options}\n",
    }
    return Node(MemoryHost({**base, **(files or {})}, complete=True))


def loader_info(text: str) -> dict[str, str | bytes]:
    name = f"sys/firmware/efi/efivars/LoaderInfo-{LOADER}"
    return {name: b"\x06\0\0\0" + f"{text}\0".encode("utf-16-le"), "sys/firmware/efi/fw_platform_size": "64"}


def test_what_gdrkit_once_wrote_is_found_with_all_that_is_lost():
    found = failed(on_debian(grub_argument(TWO)), kernel_arguments_cut)

    assert found.subject == f"/{OWN}"
    assert found.seen == "cut off: ;0000:17:02.0 crash=1"
    assert "gdr fix --undo" in found.advice


@pytest.mark.parametrize(
    "own",
    [
        grub_argument(for_grub(TWO)),
        'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX pci=config_acs=\\"1@0000:17:01.0;0@0000:17:02.0\\""\n',
        grub_argument(TWO.replace(";", "\\;")),
        f"# GRUB_CMDLINE_LINUX_DEFAULT={TWO}\n",
    ],
    ids=["as gdrkit writes it", "as rdma_topo does", "escaped", "a comment"],
)
def test_quoted_values_pass(own):
    passed(on_debian(own), kernel_arguments_cut)


def test_a_cut_in_the_first_variable_takes_the_second_with_it():
    node = on_debian(f'GRUB_CMDLINE_LINUX="{TWO}"\n')
    assert failed(node, kernel_arguments_cut).seen == "cut off: ;0000:17:02.0 quiet crash=1"


def test_a_later_file_that_assigns_anew_mends_it():
    own = grub_argument(TWO)
    mended = {"etc__default__grub.d__99.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'}
    passed(on_debian(own, **mended), kernel_arguments_cut)


def test_a_file_that_grub_of_rhel_does_not_source_cuts_nothing():
    passed(on_rocky("ro quiet", {OWN: grub_argument(TWO)}), kernel_arguments_cut)


def test_the_running_kernel_that_started_without_them_is_named():
    cut = "BOOT_IMAGE=/vmlinuz quiet pci=disable_acs_redir=0000:17:01.0\n"
    whole = f"BOOT_IMAGE=/vmlinuz quiet {TWO} crash=1\n"
    started = "; the running kernel started without them"

    def seen(running: str) -> str:
        return failed(on_debian(grub_argument(TWO), proc__cmdline=running), kernel_arguments_cut).seen

    assert seen(cut).endswith(started)
    assert started not in seen(whole) and started not in seen("quiet\n")


def test_an_entry_that_grub_reads_as_a_script_is_found():
    found = failed(on_rocky(f"ro {TWO} quiet"), kernel_arguments_cut)
    assert (found.subject, found.seen) == (f"/{ENTRY}", "cut off: ;0000:17:02.0 quiet")
    passed(on_rocky(f"ro {for_grub(TWO)} quiet"), kernel_arguments_cut)


def test_the_variable_that_entries_refer_to_is_read_too():
    grubenv = {"boot/grub2/grubenv": f"# GRUB Environment Block\nkernelopts=ro {TWO} quiet\n####"}
    assert failed(on_rocky("$kernelopts", grubenv), kernel_arguments_cut).subject == "/boot/grub2/grubenv"
    passed(on_rocky("ro quiet", grubenv), kernel_arguments_cut)


def test_the_arguments_of_the_next_kernel_are_read_too():
    line = {"etc/kernel/cmdline": f"ro {TWO} quiet\n"}
    assert failed(on_rocky("ro quiet", line), kernel_arguments_cut).subject == "/etc/kernel/cmdline"


def test_systemd_boot_does_not_split_at_a_semicolon():
    node = on_rocky(f"ro {TWO} quiet", loader_info("systemd-boot 255"))
    not_applicable(node, kernel_arguments_cut)
    failed(on_rocky(f"ro {TWO} quiet", loader_info("GRUB 2.12")), kernel_arguments_cut)


def test_entries_of_an_unknown_loader_are_unknown():
    files = {"etc/os-release": "ID=arch\n", ENTRY: f"options ro {TWO}\n"}
    absent = {"etc/default/grub", "etc/kernel/cmdline"}
    found = missing(Node(MemoryHost(files, absent=absent)), kernel_arguments_cut)
    assert "LoaderInfo" in found.source


def test_without_a_configuration_of_grub_there_is_nothing_to_cut():
    not_applicable(Node(MemoryHost({"etc/os-release": "ID=talos\n"}, complete=True)), kernel_arguments_cut)


def test_files_that_were_not_collected_are_unknown_and_never_a_pass():
    found = missing(Node(MemoryHost({"etc/os-release": "ID=ubuntu\n"})), kernel_arguments_cut)
    assert found.why is MissingReason.NOT_COLLECTED


def test_a_cut_line_outranks_a_file_that_was_not_collected():
    failed(on_debian(grub_argument(TWO), complete=False), kernel_arguments_cut)
    missing(on_debian(grub_argument(for_grub(TWO)), complete=False), kernel_arguments_cut)
