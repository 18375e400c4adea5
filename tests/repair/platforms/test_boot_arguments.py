"""Kernel arguments that steps add, read back by the tools that start the kernel."""

from __future__ import annotations

import functools
import shlex
import subprocess

import pytest

from gdrkit.evidence.target import open_host
from gdrkit.facts.boot_loader import is_systemd_boot
from gdrkit.facts.kernel import boot_parameter, split_command_line
from gdrkit.facts.machine import Distribution, distribution
from gdrkit.formats.grub_script import command_end
from gdrkit.node import Node
from gdrkit.repair.platforms.acs_arguments import config_acs
from gdrkit.repair.platforms.action import AskPerson, RunCommand, WriteFile
from gdrkit.repair.platforms.boot_quoting import for_grub, for_kernel
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.file_contents import HEAD, grub_argument
from gdrkit.repair.platforms.procedures import procedure_for
from gdrkit.repair.remedies import remedy_of
from tests.evidence_nodes import laid_down
from tests.grub import grub_config, kernel_arguments, needs_grub

FAMILIES = {
    "debian": Distribution("ubuntu", "24.04", ("debian",), "Ubuntu"),
    "rhel": Distribution("rocky", "9.4", ("rhel", "centos", "fedora"), "Rocky Linux"),
    "suse": Distribution("sles", "15.6", ("suse",), "SLES"),
}
TWO = "pci=disable_acs_redir=0000:17:01.0;0000:17:02.0"
DEFAULTS = 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX="console=ttyS0"\n'
LATER = 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT crashkernel=512M"\n'


@functools.cache
def redirecting() -> Node:
    return Node(open_host(str(laid_down("acs-redirect"))))


def actions(family: str, step="clear-acs-redirect", node=None, **changes):
    where = (node or redirecting()).after("elsewhere", [distribution.becomes(FAMILIES[family])])
    return procedure_for(where, remedy_of(step), ProcedureChoices(acs="command-line")).actions


def argument_of(family: str) -> str:
    """What the family's tool is given to add, and a check that its undo names the same."""
    for action in actions(family):
        if isinstance(action, RunCommand) and action.argv[0] in ("grubby", "pbl"):
            word, back = action.argv[-1], action.undo[0][-1]
            assert word.removeprefix("--args=") == back.removeprefix("--remove-args=")
            return word.removeprefix("--args=")
    raise AssertionError(family)


def drop_ins(*contents: str) -> dict[str, str]:
    return {"grub": DEFAULTS} | {f"grub.d/9{at}.cfg": text for at, text in enumerate(contents)}


@needs_grub
@pytest.mark.parametrize("entry", ["0", "1>0"], ids=["the first entry", "one of the submenu"])
def test_the_kernel_gets_every_device_and_every_later_argument(tmp_path, entry):
    (written,) = (a for a in actions("debian") if isinstance(a, WriteFile))
    config = grub_config(drop_ins(written.content, LATER), tmp_path)

    assert kernel_arguments(config, tmp_path, entry) == [
        "root=/dev/sda1", "ro", "console=ttyS0", "quiet", TWO, "crashkernel=512M",
    ]  # fmt: skip


@needs_grub
def test_without_quotes_grub_loses_the_second_device_and_all_behind_it(tmp_path):
    config = grub_config(drop_ins(grub_argument(TWO), LATER), tmp_path)

    assert kernel_arguments(config, tmp_path)[-1] == "pci=disable_acs_redir=0000:17:01.0"


@needs_grub
@pytest.mark.parametrize("special", list(";&|<>{}$#()*!? ~`[]%"))
def test_each_special_character_of_a_value_reaches_the_kernel(special, tmp_path):
    argument = f"a=b{special}c {special}d".replace(" ", "", special != " ")
    quoted = for_grub(argument)
    config = f"menuentry x {{\nlinux /vmlinuz {quoted} last\n}}\n"

    assert kernel_arguments(config, tmp_path) == [argument, "last"]


def test_what_no_boot_loader_takes_is_refused():
    for letter in "'\"\\\n":
        for quote in (for_grub, for_kernel):
            with pytest.raises(ValueError, match="no boot loader"):
                quote(f"a=b{letter};c")


def test_a_plain_argument_stays_as_it_is():
    for quote in (for_grub, for_kernel):
        assert quote("iommu=pt") == "iommu=pt"
        assert quote("pci=disable_acs_redir=0000:17:01.0") == "pci=disable_acs_redir=0000:17:01.0"


@needs_grub
def test_grub_makes_one_argument_of_what_grubby_writes_into_an_entry(tmp_path):
    # rhboot/grub2, blscfg.c, create_entry(): the options behind `linux` and the kernel's path, as a script
    config = f"menuentry x {{\nlinux /vmlinuz ro {argument_of('rhel')} crashkernel=512M\n}}\n"

    assert kernel_arguments(config, tmp_path) == ["ro", TWO, "crashkernel=512M"]


@needs_grub
def test_grub_reads_the_same_from_the_file_that_grubby_changes(tmp_path):
    # grubby-bls, update_bls_fragment(): the arguments between double quotes, nothing escaped
    defaults = f'GRUB_CMDLINE_LINUX="ro {argument_of("rhel")} crashkernel=512M"\n'
    config = grub_config({"grub": defaults}, tmp_path)

    assert kernel_arguments(config, tmp_path)[2:] == ["ro", TWO, "crashkernel=512M"]


def test_grubby_and_sed_leave_the_argument_as_it_is():
    # grubby-bls passes it unquoted through words of bash and through the replacement of `sed s/../../`
    argument = argument_of("rhel")
    assert not set(argument) & set('\\& \t/*?["')
    assert argument.startswith("pci=")


@needs_grub
def test_grub_reads_what_pbl_writes_into_its_file(tmp_path):
    # perl-bootloader, lib_set_cmdline_grub(): double quotes are escaped
    escaped = argument_of("suse").replace("\\", "\\\\").replace('"', '\\"')
    config = grub_config({"grub": f'GRUB_CMDLINE_LINUX_DEFAULT="quiet {escaped} last"\n'}, tmp_path)

    assert kernel_arguments(config, tmp_path)[2:] == ["quiet", TWO, "last"]


def test_the_kernel_itself_removes_the_quotes_of_what_systemd_boot_hands_on():
    # systemd-boot(7) passes options as they are; lib/cmdline.c, next_arg() removes double quotes alone
    for words in (argument_of("suse"), for_kernel(TWO)):
        assert split_command_line(f"quiet {words} last") == ("quiet", TWO, "last")


@pytest.mark.parametrize("family", ["debian", "rhel"])
@pytest.mark.parametrize("step", ["clear-acs-redirect", "iommu-passthrough"])
def test_where_systemd_boot_starts_the_machine_a_person_edits_its_line(family, step):
    by_systemd = redirecting().after("boot", [is_systemd_boot.becomes(True)])
    found = actions(family, step, by_systemd)[-1]

    assert isinstance(found, AskPerson) and "/etc/kernel/cmdline" in found.what
    wanted = f"append {for_kernel(TWO)} to" if step.startswith("clear") else "append iommu=pt to"
    assert wanted in found.what
    assert subprocess.run(["bash", "-n", "-c", found.commands[0]]).returncode == 0
    assert not any("grub" in " ".join(getattr(a, "argv", ())) for a in actions(family, step, by_systemd))


def test_pbl_is_for_systemd_boot_too():
    by_systemd = redirecting().after("boot", [is_systemd_boot.becomes(True)])
    assert actions("suse", "clear-acs-redirect", by_systemd) == actions("suse")


@pytest.mark.parametrize("family", FAMILIES)
def test_options_of_pci_that_are_there_stay(family):
    present = ("nocrs,disable_acs_redir=0000:99:00.0;0000:17:01.0", "realloc")
    where = redirecting().after("boot", [boot_parameter.becomes(present, "pci")])
    shown = " ".join(
        " ".join((getattr(a, "content", ""), *getattr(a, "argv", ()))) for a in actions(family, node=where)
    )

    assert "nocrs,realloc,disable_acs_redir=0000:17:01.0;0000:17:02.0;0000:99:00.0" in shown


def test_a_new_mask_comes_before_one_that_is_there():
    # drivers/pci/pci.c: the first entry that matches a device counts
    present = ("config_acs=xx110x1@0000:17:01.0;1@pci:0:0",)
    assert config_acs({"0000:17:01.0": "000xx"}, present) == ("pci=config_acs=000xx@0000:17:01.0;1@pci:0:0")


def test_options_that_fit_no_command_give_instructions_instead():
    where = redirecting().after("boot", [boot_parameter.becomes(("a$(b)",), "pci")])
    found = actions("rhel", node=where)

    assert [type(action) for action in found] == [AskPerson]


def test_every_written_value_with_a_semicolon_is_quoted():
    for family in FAMILIES:
        for action in actions(family):
            if isinstance(action, WriteFile) and action.path.endswith(".cfg"):
                line = action.content.removeprefix(HEAD).strip()
                assert command_end(shlex.split(line)[0].partition("=")[2]) == -1
    assert command_end(f"quiet {TWO}") > 0
