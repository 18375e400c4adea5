"""Procedures of every step, on every test node, for every family of distributions."""

from __future__ import annotations

import functools
import shlex
import shutil
import subprocess

import pytest
import yaml
from tools.platforms import SETTINGS

from gdrkit.evidence.target import open_host
from gdrkit.facts.kernel import architecture
from gdrkit.facts.machine import Distribution, distribution
from gdrkit.facts.pci_registers import read_request_bytes
from gdrkit.facts.rdma import nic_address, nics
from gdrkit.node import Node
from gdrkit.repair.config.check import check
from gdrkit.repair.platforms import file_contents
from gdrkit.repair.platforms.action import AskPerson, EnrolKey, Procedure, RemoveFile, RunCommand, WriteFile
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.doca import repository
from gdrkit.repair.platforms.families import PLATFORMS
from gdrkit.repair.platforms.means import means
from gdrkit.repair.platforms.procedures import procedure_for
from gdrkit.repair.remedies import every_remedy, remedy_of
from gdrkit.repair.remedies.raise_read_request import RAISE_READ_REQUEST
from gdrkit.rules.remedy_names import RemedyName
from tests.evidence_nodes import laid_down, names
from tests.index_builder import with_indexes
from tests.memory_host import MemoryHost
from tests.system_programs import needs, program

FAMILIES = {
    "debian": Distribution("ubuntu", "24.04", ("debian",), "Ubuntu"),
    "rhel": Distribution("rocky", "9.4", ("rhel", "centos", "fedora"), "Rocky Linux"),
    "suse": Distribution("sles", "15.6", ("suse",), "SLES"),
}
CHOICES = (
    ProcedureChoices(),
    ProcedureChoices(key="/etc/keys/a key", certificate="/etc/keys/a.der", acs="command-line", enrol=False),
)


@functools.cache
def node(name: str, family: str = "") -> Node:
    if family:
        return node(name).after("elsewhere", [distribution.becomes(FAMILIES[family])])
    return Node(open_host(str(laid_down(name))))


def procedures(name: str, family: str, choices: ProcedureChoices) -> list[Procedure]:
    where = node(name, family)
    found = [procedure_for(where, remedy, choices) for remedy in every_remedy()]
    for procedure in found:  # real evidence gives no command that is refused
        for action in procedure.actions:
            assert not (isinstance(action, AskPerson) and "exact commands: not" in action.what), action
    return found


def commands(procedure: Procedure) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for action in procedure.actions:
        if isinstance(action, RunCommand):
            found += [action.argv, *action.undo]
        if isinstance(action, EnrolKey):
            found.append(("mokutil", "--import", action.certificate))
    return found


def every_command() -> set[tuple[str, ...]]:
    return {
        argv
        for name in names()
        for family in FAMILIES
        for choices in CHOICES
        for procedure in procedures(name, family, choices)
        for argv in commands(procedure)
    }


def test_the_families_share_no_distribution():
    members = [member for platform in PLATFORMS for member in platform.members]
    assert len(members) == len(set(members))


@needs("shellcheck")
def test_every_command_of_every_plan_passes_bash_and_shellcheck(tmp_path):
    script = tmp_path / "all.sh"
    lines = sorted(shlex.join(argv) for argv in every_command())
    assert len(lines) > 60
    script.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    assert subprocess.run(["bash", "-n", script]).returncode == 0
    checked = subprocess.run([program("shellcheck"), script], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_every_line_for_a_person_is_one_that_a_shell_accepts():
    lines = {
        line
        for name in names()
        for family in ("", *FAMILIES)
        for procedure in procedures(name, family, ProcedureChoices())
        for action in procedure.actions
        if isinstance(action, AskPerson)
        for line in action.commands
    }
    assert len(lines) > 10
    checked = subprocess.run(["bash", "-n"], input="\n".join(sorted(lines)), capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_printed_command_parses_back_to_its_arguments():
    for argv in every_command():
        assert tuple(shlex.split(shlex.join(argv))) == argv
        assert all(argv) and not any("\n" in word or "{" in word for word in argv)
        assert not argv[0].startswith("sudo")


@pytest.mark.parametrize(
    "release",
    ["--outdir=x", "{root.__class__}", "{0}", "../../../etc", "6.1.0 -C x", "6.1.0;id", "6.1.0\x1b"],
)
def test_a_hostile_kernel_release_gets_no_commands(release):
    where = _host(
        **{
            "proc__sys__kernel__osrelease": f"{release}\n".encode(),
            "etc__os-release": b"ID=ubuntu\n",
            "var__lib__dpkg__status": b"Package: linux-modules-nvidia-570-x\nStatus: install ok installed\n"
            b"Version: 1\n\n",
            "usr__sbin__update-initramfs": b"",
            f"lib/modules/{release}/modules.dep": b"updates/nv_peer_mem.ko:\n",
            f"lib/modules/{release}/updates/nv_peer_mem.ko": b"",
        }
    )
    for remedy in ("install-ofed", "open-kernel-modules", "override-topology-check", "remove-nv-peer-mem"):
        procedure = procedure_for(where, remedy_of(remedy), ProcedureChoices())
        assert [type(action) for action in procedure.actions] == [AskPerson], procedure
        assert remedy_of(remedy).becomes in procedure.actions[0].what


@pytest.mark.parametrize(
    "file", ["etc__init.d__nv_peer_mem", "lib__systemd__system__nv_peer_mem.service", "etc__init.d__other"]
)
def test_one_service_of_nv_peer_mem_is_enough_to_be_disabled(file):
    where = _host(proc__sys__kernel__osrelease=b"6.1.0-1-amd64\n", **{file: b""})
    actions = procedure_for(where, remedy_of("remove-nv-peer-mem"), ProcedureChoices()).actions
    commands = [action.argv for action in actions if isinstance(action, RunCommand)]
    disabled = ("systemctl", "disable", "--now", "nv_peer_mem") in commands
    assert disabled is not file.endswith("other")


def test_commands_that_the_lab_has_not_run_are_marked_never_executed():
    tested, seen = {"depmod", "modprobe", "rmmod"}, set()
    for name in names():
        for family in FAMILIES:
            for procedure in procedures(name, family, ProcedureChoices()):
                for action in procedure.actions:
                    if isinstance(action, RunCommand):
                        assert action.never_executed or action.argv[0] in tested, action
                        seen.add(action.never_executed)
    assert seen == {False, True}


def test_written_paths_are_absolute_and_in_allowed_folders():
    allowed = ("/etc/", "/lib/modules/", "/usr/lib/modules/", "/var/lib/gdrkit/")
    paths = set()
    for name in names():
        for procedure in procedures(name, "debian", ProcedureChoices()):
            for action in procedure.actions:
                if isinstance(action, WriteFile | RemoveFile):
                    assert action.path.startswith(allowed) and ".." not in action.path
                    paths.add(action.path)
    assert len(paths) > 5


def test_an_unknown_distribution_gets_instructions_and_no_commands():
    nixos = Distribution("nixos", "25.11", (), "NixOS")
    where = node("ubuntu-6.8-h100").after("elsewhere", [distribution.becomes(nixos)])
    for remedy in every_remedy():
        procedure = procedure_for(where, remedy, ProcedureChoices())
        assert procedure.platform == "" and [type(action) for action in procedure.actions] == [AskPerson]
        assert remedy.becomes in procedure.actions[0].what
    (how,) = procedure_for(where, remedy_of(RemedyName.IOMMU_PASSTHROUGH), ProcedureChoices()).actions
    assert isinstance(how, AskPerson) and "add iommu=pt to the kernel's command line" in how.what


@pytest.mark.parametrize("system", ["debian", "rhel", "flatcar", "talos", "cos"])
def test_pods_are_given_the_capability_and_their_host_no_limit(system):
    """A pod has the limits of its runtime, which no file for logins sets."""
    pods = node("gpu-operator-waits").after("elsewhere", SETTINGS[system].suppose[:1])
    memlock = remedy_of(RemedyName.RAISE_MEMLOCK)
    (one,) = procedure_for(pods, memlock, ProcedureChoices()).actions
    assert isinstance(one, AskPerson) and "IPC_LOCK" in one.what
    assert not means(pods, memlock).needs_root and not means(pods, memlock).needs_reboot


@pytest.mark.parametrize(("system", "words"), [("debian", "limits.d"), ("flatcar", "system.conf.d")])
def test_a_host_whose_jobs_are_no_pods_is_given_a_limit(system, words):
    host = node("acs-redirect").after("elsewhere", SETTINGS[system].suppose)
    found = procedure_for(host, remedy_of(RemedyName.RAISE_MEMLOCK), ProcedureChoices()).actions
    assert any(words in str(one) for one in found) and not any("IPC_LOCK" in str(one) for one in found)


def test_what_a_replaced_node_loses_is_a_risk_where_jobs_are_pods():
    """A kernel argument is lost with the node; so is none of a machine that nobody replaces."""
    argument = remedy_of(RemedyName.IOMMU_PASSTHROUGH)
    kept = node("acs-redirect").after("elsewhere", SETTINGS["rhel"].suppose)
    assert "a new one lacks it" in means(node("gpu-operator-waits"), argument).risk
    assert means(kept, argument).risk == argument.risk


def test_coreos_is_not_of_the_family_that_it_names():
    for rhcos in (
        Distribution("rhcos", "4.16", ("rhel", "fedora"), "RHCOS"),
        Distribution("rhel", "9.6", ("fedora",), "RHCOS", "coreos"),
    ):
        where = node("ofed-rebuilt").after("elsewhere", [distribution.becomes(rhcos)])
        for remedy in every_remedy():
            procedure = procedure_for(where, remedy, ProcedureChoices())
            assert all(isinstance(action, AskPerson) for action in procedure.actions), procedure
    assert procedure_for(where, remedy_of("rebuild-driver"), ProcedureChoices()).platform == "gpu-operator"


def test_a_blacklist_line_is_commented_out_and_other_lines_stay():
    procedure = procedure_for(node("peermem-blacklisted"), remedy_of("allow-module"), ProcedureChoices())
    (action,) = procedure.actions
    assert isinstance(action, WriteFile) and action.path == "/etc/modprobe.d/blacklist-peermem.conf"
    assert action.content.splitlines()[1] == "# gdrkit: blacklist nvidia-peermem" and action.was


def test_install_lines_that_load_a_renamed_module_and_valid_options_stay():
    procedure = procedure_for(node("debian-12-renamed"), remedy_of("allow-module"), ProcedureChoices())
    assert not [action for action in procedure.actions if "renamed" in getattr(action, "content", "")]
    assert procedure.actions == ()


def test_continuation_lines_are_commented_out_too():
    text = "a\ninstall x \\\n  /bin/false \\\n  more\nb\n"
    assert file_contents.commented_out(text, [2]) == (
        "a\n# gdrkit: install x \n# gdrkit:   /bin/false \n# gdrkit:   more\nb\n"
    )
    assert file_contents.commented_out("x", []) == "x"


def _host(**files: bytes) -> Node:
    base = {
        "etc/os-release": b"ID=debian\n",
        "proc/sys/kernel/osrelease": b"6.1.0-9-amd64\n",
        "sys/firmware/efi/config_table": b"",
    }
    whole = with_indexes({**base, **{k.replace("__", "/"): v for k, v in files.items()}})
    return Node(MemoryHost(whole, complete=True))


def test_acs_bits_are_cleared_on_redirecting_bridges_and_undo_restores_them():
    procedure = procedure_for(node("acs-redirect"), remedy_of("clear-acs-redirect"), ProcedureChoices())
    first = procedure.actions[0]
    assert isinstance(first, RunCommand)
    assert first.argv == ("setpci", "-s", "0000:17:01.0", "ECAP_ACS+0x6.w=0000:001c")
    (undo,) = first.undo
    assert undo[3].startswith("ECAP_ACS+0x6.w=00") and undo[3].endswith(":001c") and undo != first.argv


@pytest.mark.parametrize(
    ("acs", "repeated_by"),
    [("unit", "gdrkit-acs.service"), ("command-line", "kernel argument"), ("volatile", "")],
)
def test_the_undo_of_the_acs_step_names_what_repeats_it_at_each_boot(acs, repeated_by):
    lasts = commands(
        procedure_for(node("acs-redirect"), remedy_of("clear-acs-redirect"), ProcedureChoices(acs=acs))
    )
    undo = remedy_of(RemedyName.CLEAR_ACS_REDIRECT).undo

    assert any(argv[0] != "setpci" for argv in lasts) == bool(repeated_by)
    assert repeated_by in undo
    assert "does not survive" not in undo


def test_only_what_lasts_until_the_next_boot_is_undone_by_a_reboot_alone():
    alone = {remedy.name for remedy in every_remedy() if "setpci, or reboot" in remedy.undo}
    assert alone == {RemedyName.RAISE_READ_REQUEST}


def test_rdma_topo_is_not_asked_about_an_ordinary_switch_which_it_does_not_know(tmp_path):
    shutil.copytree(laid_down("acs-redirect"), tmp_path, dirs_exist_ok=True, symlinks=True)
    (tmp_path / "usr/sbin").mkdir(parents=True, exist_ok=True)
    (tmp_path / "usr/sbin/rdma_topo").touch()
    with_it = Node(open_host(str(tmp_path)))
    found = commands(procedure_for(with_it, remedy_of("clear-acs-redirect"), ProcedureChoices()))
    assert found[0][0] == "setpci" and not any("rdma_topo" in argv for argv in found)


def test_each_nic_whose_firmware_asks_for_less_is_set_and_the_others_stay():
    plain = node("ubuntu-6.8-h100")
    first, second, *others = [nic_address(plain, nic.name) for nic in nics(plain)]
    sizes = {first: 4096, second: 512} | dict.fromkeys(others, 4096)
    changed = plain.after("set", [read_request_bytes.becomes(size, nic) for nic, size in sizes.items()])
    (found,) = RAISE_READ_REQUEST.procedure(changed, PLATFORMS[0], ProcedureChoices())
    assert isinstance(found, RunCommand)
    assert found.argv == ("setpci", "-s", second, "CAP_EXP+0x8.w=5000:7000")
    assert found.undo == (("setpci", "-s", second, "CAP_EXP+0x8.w=2000:7000"),)


def test_with_missing_evidence_a_step_gives_instructions_and_no_commands():
    procedure = procedure_for(_host(), remedy_of("sign-module"), ProcedureChoices())
    (action,) = procedure.actions
    assert isinstance(action, AskPerson) and "every NVIDIA module is signed" in action.what


def test_without_uefi_no_key_of_the_owner_can_be_enrolled():
    without = Node(MemoryHost({"etc/os-release": b"ID=debian\n"}, complete=True))
    (action,) = procedure_for(without, remedy_of("sign-module"), ProcedureChoices()).actions
    assert isinstance(action, AskPerson) and "without UEFI" in action.what


@needs("systemd-analyze")
def test_units_pass_systemd_analyze_verify(tmp_path):
    unit = tmp_path / "gdrkit-acs.service"
    unit.write_text(file_contents.acs_unit([("/bin/true", "-s", "0000:17:01.0")]))
    other = tmp_path / "gdrkit-peermem.service"
    other.write_text(file_contents.peermem_unit("/bin/true", "/bin/true"))
    for path in (unit, other):
        checked = subprocess.run(
            [program("systemd-analyze"), "verify", "--man=no", path], capture_output=True, text=True
        )
        assert path.name not in checked.stderr, checked.stderr


@pytest.mark.parametrize(
    ("system", "folder"),
    [
        (Distribution("ubuntu", "22.04", ("debian",), ""), "ubuntu22.04"),
        (Distribution("ubuntu", "24.04", ("debian",), ""), "ubuntu24.04"),
        (Distribution("ubuntu", "20.04", ("debian",), ""), ""),
        (Distribution("pop", "24.04", ("ubuntu", "debian"), ""), ""),
        (Distribution("debian", "11", (), ""), ""),
        (Distribution("rocky", "9.4", ("rhel",), ""), "rhel9"),
        (Distribution("almalinux", "10", ("rhel",), ""), "rhel10"),
        (Distribution("rhel", "8.10", (), ""), "rhel8"),
        (Distribution("rhel", "7.9", (), ""), ""),
        (Distribution("rhel", "", (), ""), ""),
        (Distribution("centos", "9", ("rhel",), ""), ""),
        (Distribution("sles", "15.6", ("suse",), ""), ""),
    ],
    ids=lambda value: f"{value.id} {value.version}" if isinstance(value, Distribution) else "",
)
@pytest.mark.parametrize(
    ("processor", "below"), [("x86_64", "x86_64"), ("aarch64", "arm64-sbsa"), ("ppc64le", "")]
)
def test_docas_repository_is_one_that_nvidia_publishes(system, folder, processor, below):
    changes = [distribution.becomes(system), architecture.becomes(processor)]
    action = repository(node("ofed-rebuilt").after("elsewhere", changes))
    address = f"https://linux.mellanox.com/public/repo/doca/3.2.1/{folder}/{below}/"
    known = bool(folder and below)
    assert any(address in command for command in action.commands) is known
    assert ("for this distribution (docs.nvidia.com/doca, DOCA-Host)" in action.what) is not known
    assert ("EPEL" in action.what) is (known and folder.startswith("rhel"))


@pytest.mark.parametrize(
    ("version", "processor", "package"),
    [
        ("12", "x86_64", "DOCA_v3.1.0/host/doca-host_3.1.0-091000-25.07-debian125_amd64.deb"),
        ("13", "x86_64", "DOCA_v3.2.1/host/doca-host_3.2.1-044000-25.10-debian13_amd64.deb"),
        ("13", "aarch64", ""),
        ("", "x86_64", ""),
    ],
)
def test_docas_repository_for_debian_comes_in_a_package(version, processor, package):
    system = Distribution("debian", version, (), "")
    changes = [distribution.becomes(system), architecture.becomes(processor)]
    action = repository(node("ofed-rebuilt").after("elsewhere", changes))

    assert any(package in command for command in action.commands) is bool(package)
    release = package[6:11] if package else "3.2.1"
    assert f"DOCA {release}" in action.what


@pytest.mark.parametrize(
    ("family", "tool", "argv"),
    [
        ("debian", "usr/sbin/update-initramfs", ("update-initramfs", "-u", "-k", "6.1.0-9-amd64")),
        ("rhel", "usr/bin/dracut", ("dracut", "--force", "--kver", "6.1.0-9-amd64")),
        ("suse", "usr/bin/dracut", ("dracut", "--force", "--kver", "6.1.0-9-amd64")),
    ],
)
def test_the_initramfs_is_rebuilt_by_the_familys_own_tool_where_it_is(family, tool, argv):
    lists = {
        "lib/modules/6.1.0-9-amd64/modules.dep": b"updates/nvidia-peermem.ko:\n",
        "lib/modules/6.1.0-9-amd64/updates/nvidia-peermem.ko": b"",
    }
    for there in (tool, "usr/sbin/other", "usr/bin/other"):
        where = _host(**{**lists, there: b""}).after("elsewhere", [distribution.becomes(FAMILIES[family])])
        procedure = procedure_for(where, remedy_of("sign-module"), ProcedureChoices())
        run = [row.argv for row in procedure.actions if isinstance(row, RunCommand)]
        assert (argv in run) is (there == tool), procedure


@pytest.mark.parametrize(
    ("name", "argument"), [("acs-redirect", "iommu=pt"), ("gh200", "iommu.passthrough=1")]
)
def test_openshift_is_given_an_object_that_sets_an_argument_and_need_not_be_there_before(name, argument):
    """oc edit fails for an object that nobody has applied. Each step has an object of its own name."""
    where = node(name).after("elsewhere", SETTINGS["rhcos"].suppose)
    (one,) = procedure_for(where, remedy_of(RemedyName.IOMMU_PASSTHROUGH), ProcedureChoices()).actions
    assert isinstance(one, AskPerson) and argument in one.what
    loaded = yaml.safe_load(one.content)
    assert loaded["spec"] == {"config": {"ignition": {"version": "3.2.0"}}, "kernelArguments": [argument]}
    assert loaded["metadata"]["name"] == "99-worker-gdrkit-argument-iommu"
    assert one.commands == ("oc apply -f machineconfig-argument-iommu.yaml",)
    assert check(one.content.encode(), "written").faults == ()


@pytest.mark.parametrize(
    ("name", "remedy", "parts"),
    [
        ("acs-redirect", RemedyName.CLEAR_ACS_REDIRECT, {"systemd"}),
        ("acs-redirect", RemedyName.RAISE_MEMLOCK, {"storage"}),
        ("iommu-translating", RemedyName.RAISE_MEMLOCK, {"storage"}),
        ("iommu-translating", RemedyName.CLEAR_ACS_REDIRECT, set()),  # no bridge redirects
    ],
)
def test_a_machine_config_of_a_step_holds_that_step_alone_and_explains_it(name, remedy, parts):
    """No limit of locked memory beside the bits of ACS, and no kernel argument beside either."""
    where = node(name).after("elsewhere", SETTINGS["rhcos"].suppose)
    found = procedure_for(where, remedy_of(remedy), ProcedureChoices()).actions
    written = [one for one in found if isinstance(one, AskPerson) and "kind: MachineConfig" in one.content]
    assert len(written) == bool(parts)
    for one in written:
        loaded = yaml.safe_load(one.content)
        assert set(loaded["spec"]) == {"config"}
        assert set(loaded["spec"]["config"]) == {"ignition", *parts}
        assert one.commands == (f"oc apply -f {one.what.partition(' to ')[2].partition(',')[0]}",)
        assert loaded["metadata"]["name"] in {"99-worker-gdrkit-acs", "99-worker-gdrkit-memlock"}
        assert "# base64 of: [crio.runtime]" in one.content or "# clears ACS redirection" in one.content
