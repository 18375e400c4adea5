"""The verdict after the next boot, on whole nodes that are ready now."""

from __future__ import annotations

from pathlib import Path
from shutil import copy, copytree

import pytest
from msgspec.structs import replace

from gdrkit.diagnosis import node_of, report_on
from gdrkit.evidence import Confidence, Host
from gdrkit.evidence.target import open_host
from gdrkit.facts.driver import driver_path
from gdrkit.facts.other_kernels import driver_elsewhere
from gdrkit.facts.trust import SignatureCheck, SignatureState, signature_check
from gdrkit.node import Node
from gdrkit.programs.names import NAMES
from gdrkit.repair.next_boot import NextBoot, next_boot
from gdrkit.report.exit_code import exit_code
from gdrkit.report.fix import FixOptions, fix_report
from gdrkit.report.fix_text import fix_text
from gdrkit.report.line import line
from gdrkit.report.text import text
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.verdict import judge_node
from gdrkit.verdict.path_state import State
from tests.evidence_builder import node
from tests.evidence_nodes import FOLDER, build, laid_down
from tests.hiding_host import HidingHost
from tests.memory_host import MemoryHost

RUNNING, NEWER = "5.15.0-119-generic", "5.15.0-125-generic"
PERSISTENT = "etc/modules-load.d/nvidia-peermem.conf"
NO_DRIVER = "kernel/lib/crc32.ko:\n"


def after(host: Host) -> NextBoot | None:
    node = node_of(host)
    return next_boot(node, judge_node(node), NAMES[0])


def known(name: str) -> NextBoot | None:
    return after(open_host(str(laid_down(name))))


@pytest.fixture
def tree(tmp_path):
    """A plain tree of a node that is ready over nvidia-peermem alone, to be changed."""
    return build("ubuntu-22.04-peer-api", tmp_path)


def write(tree: Path, **files: str) -> Host:
    for path, content in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(content)
    return open_host(str(tree))


def newer(tree: Path, modules: str = NO_DRIVER, **files: str) -> Host:
    """The tree after the kernel was upgraded, and not booted yet."""
    boot = {f"boot/vmlinuz-{kernel}": "" for kernel in (RUNNING, NEWER)}
    depmod = {f"lib/modules/{NEWER}/modules.dep": modules}
    return write(tree, **boot, **depmod, **{"etc/default/grub": "GRUB_DEFAULT=0\n", **files})


# -- the running kernel boots again ------------------------------------------------------------------------


def test_an_ofed_that_was_upgraded_no_longer_fits_the_module():
    found = known("ofed-upgraded")
    assert found is not None and found.state is State.BLOCKED
    assert found.cause == "module-crc-mismatch"
    assert "ib_register_peer_memory_client" in found.seen
    assert found.steps == (RemedyName.REBUILD_DRIVER, RemedyName.PERSIST_PEERMEM)
    assert found.confidence is Confidence.LIKELY  # the initramfs may still hold the former OFED


def test_a_module_that_was_loaded_by_hand_is_gone_after_the_boot(tree):
    (tree / PERSISTENT).unlink()
    found = after(open_host(str(tree)))
    assert found == NextBoot(
        state=State.BLOCKED,
        kernel=RUNNING,
        cause="peermem-not-persistent",
        seen="nothing loads nvidia-peermem at boot",
        steps=(RemedyName.PERSIST_PEERMEM,),
    )


def test_a_module_that_is_loaded_at_boot_is_loaded_again(tree):
    assert after(open_host(str(tree))) == NextBoot(state=State.READY, kernel=RUNNING)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("etc/modprobe.d/gpu.conf", "softdep nvidia post: nvidia-peermem\n"),
        ("etc/systemd/system/gpu-setup.service", "[Service]\nExecStart=/sbin/modprobe nvidia-peermem\n"),
        ("etc/udev/rules.d/70-gpu.rules", 'ACTION=="add", RUN+="/sbin/modprobe nvidia-peermem"\n'),
    ],
)
def test_another_loader_is_as_good(tree, path, text):
    (tree / PERSISTENT).unlink()
    host = write(tree, **{path: text})
    assert after(host) == NextBoot(state=State.READY, kernel=RUNNING)
    assert "peermem-not-persistent" not in {finding.code for finding in report_on(node_of(host)).findings}


def test_a_loader_that_is_only_a_comment_is_none(tree):
    (tree / PERSISTENT).unlink()
    host = write(tree, **{"etc/rc.local": "#!/bin/sh\n# modprobe nvidia-peermem\n"})
    assert "peermem-not-persistent" in {finding.code for finding in report_on(node_of(host)).findings}


def test_a_blacklist_that_systemd_obeys_blocks_after_the_boot(tree):
    found = after(write(tree, **{"etc/modprobe.d/no.conf": "blacklist nvidia-peermem\n"}))
    assert found is not None and found.cause == "peermem-not-persistent"


def test_a_module_that_dma_buf_replaces_may_go():
    assert known("rhel-9-mofed") == NextBoot(state=State.READY, kernel="5.14.0-427.13.1.el9_4.x86_64")


def test_a_driver_whose_file_is_gone_is_not_loaded_again(tree):
    for path in tree.glob(f"lib/modules/{RUNNING}/**/nvidia.ko*"):
        path.unlink()
    found = after(open_host(str(tree)))
    assert found is not None and (found.state, found.cause) == (State.BLOCKED, "driver-not-loaded")


@pytest.mark.parametrize(
    ("own", "state"), [("nvidia-dkms-535-open", State.BLOCKED), ("nvidia-utils-535", State.UNKNOWN)]
)
def test_a_driver_of_which_the_disk_has_nothing_came_from_elsewhere(tree, own, state):
    """As from the container of an operator whose settings were not collected. Tools alone do not count."""
    for path in tree.glob(f"lib/modules/{RUNNING}/**/nvidia*.ko*"):
        path.unlink()
    status = f"Package: {own}\nStatus: install ok installed\nVersion: 535.183.01-0ubuntu1\n"
    found = after(write(tree, **{"var/lib/dpkg/status": status}))
    assert found is not None and found.state is state


def test_a_driver_whose_key_was_revoked_is_not_loaded_again():
    """It runs, since it was loaded before. The near miss: the key of a file that no boot loads."""
    node = Node(open_host(str(laid_down("ubuntu-6.8-h100"))))
    refused = SignatureCheck(SignatureState.REVOKED, "a key")

    def state_with(path: str) -> State:
        changed = node.after("revoke", (signature_check.becomes(refused, path),))
        found = next_boot(changed, judge_node(changed), NAMES[0])
        assert found is not None
        return found.state

    assert state_with(driver_path(node)) is State.BLOCKED
    assert state_with("lib/modules/6.8.0-31-generic/other.ko") is State.READY


# -- another kernel boots ----------------------------------------------------------------------------------


def test_a_newer_kernel_without_the_driver_blocks_and_its_package_repairs_it(tree):
    found = after(newer(tree))
    assert found is not None and (found.state, found.kernel) == (State.BLOCKED, NEWER)
    assert found.cause == "driver-not-loaded"
    assert found.seen == f"Linux {NEWER}, which boots next, has no NVIDIA module"
    package = f"sudo apt-get install -y linux-modules-nvidia-535-server-{NEWER}"
    assert found.commands == (
        package,
        "gdr doctor",
    )  # whether that kernel has the peer-memory API is not seen
    assert found.confidence is Confidence.LIKELY


def test_without_a_list_of_packages_the_folder_of_the_modules_names_the_package(tree):
    host = newer(tree)
    (tree / "var/lib/dpkg/status").unlink()
    found = after(host)
    assert found is not None and found.state is State.BLOCKED
    assert found.commands[0] == f"sudo apt-get install -y linux-modules-nvidia-535-server-{NEWER}"


@pytest.mark.parametrize(
    ("folder", "package"),
    [("nvidia-570srv-open", "570-server-open"), ("nvidia-580", "580"), ("nvidia-580-open", "580-open")],
)
def test_each_branch_and_flavour_has_a_folder_of_its_own(folder, package):
    files = {f"lib/modules/6.8.0-79-generic/kernel/{folder}/nvidia.ko": ""}
    found = driver_elsewhere(Node(MemoryHost(files | {"etc/os-release": "ID=ubuntu\n"}, complete=True)))
    assert driver_elsewhere(Node(MemoryHost(files | {"etc/os-release": "ID=fedora\n"}))) is None
    assert found is not None and found.prebuilt == f"linux-modules-nvidia-{package}"
    assert found.flavour == ("open" if "open" in package else "proprietary")


def test_gdr_fix_says_what_to_do_before_the_boot(tree):
    report = fix_report(node_of(newer(tree)), FixOptions())
    (action,) = report.by_hand
    assert "before the reboot" in action.line and "driver-not-loaded" in action.line
    assert action.commands[0] == f"sudo apt-get install -y linux-modules-nvidia-535-server-{NEWER}"
    assert "nothing to fix for a direct path now" in fix_text(report)


STUB, PROPRIETARY, OPEN = 'peermem = "stub"\n', 'flavour = "proprietary"\n', 'flavour = "open"\n'
API, NO_API = 'inbox_peer_api = "ib_core"\n', 'inbox_peer_api = ""\n'


def with_modules(tree: Path, tmp_path: Path, driver: str, rdma: str = API) -> Host:
    """The tree, and a newer kernel with its own modules, made as those of a node that runs it."""
    described = tmp_path / "described" / "newer"
    described.mkdir(parents=True)
    copy(FOLDER / "presets.toml", described.parent)
    own = (FOLDER / "ubuntu-22.04-peer-api" / "node.toml").read_text()
    start, driver_table, rest = own.partition("[driver]\n")
    kernel = f'[kernel]\nrelease = "{NEWER}"\n[rdma]\n{rdma}{driver_table}{driver}'
    (described / "node.toml").write_text(f"{start}{kernel}{rest}")
    (tmp_path / "other").mkdir()
    other = node.write(described, tmp_path / "other")
    copytree(other / "lib/modules" / NEWER, tree / "lib/modules" / NEWER)
    boot = {f"boot/vmlinuz-{kernel}": "" for kernel in (RUNNING, NEWER)}
    return write(tree, **boot, **{"etc/default/grub": "GRUB_DEFAULT=0\n"})


def test_the_next_kernels_own_modules_close_nothing(tree, tmp_path):
    """Ubuntu's 5.15 has the peer-memory API, and the module of the newer build fits it. Only whether the
    driver's init function succeeds is left open."""
    found = after(with_modules(tree, tmp_path, PROPRIETARY))
    assert found == NextBoot(state=State.UNKNOWN, seen="result of loading nvidia at boot")


def test_a_stub_of_the_next_kernel_takes_the_path_away(tree, tmp_path):
    found = after(with_modules(tree, tmp_path, PROPRIETARY + STUB, NO_API))
    assert found is not None
    assert (found.state, found.kernel, found.cause) == (State.BLOCKED, NEWER, "peermem-stub")
    assert found.seen.startswith(f"Linux {NEWER}, which boots next: nvidia-peermem.ko does not load")
    assert found.commands == (f"sudo apt-get install -y linux-modules-nvidia-535-server-open-{NEWER}",)
    assert found.confidence is Confidence.LIKELY
    report = report_on(node_of(open_host(str(tree))))
    assert (report.verdict.state, exit_code(report)) == ("ready", 1)


def test_a_stub_is_no_loss_beside_open_modules(tree, tmp_path):
    found = after(with_modules(tree, tmp_path, OPEN + STUB, NO_API))
    assert found is not None and found.state is not State.BLOCKED


def test_a_module_of_the_next_kernel_whose_api_is_gone_does_not_load(tree, tmp_path):
    """It was built against an OFED that this kernel does not have."""
    found = after(with_modules(tree, tmp_path, PROPRIETARY, NO_API))
    assert found is not None and (found.state, found.cause) == (State.BLOCKED, "module-symbol-missing")


def test_what_nothing_loads_is_missing_on_the_next_kernel_as_well(tree, tmp_path):
    (tree / PERSISTENT).unlink()
    found = after(with_modules(tree, tmp_path, PROPRIETARY))
    assert found is not None and (found.cause, found.kernel) == ("peermem-not-persistent", NEWER)
    assert found.steps == (RemedyName.PERSIST_PEERMEM,)


@pytest.mark.parametrize("hidden", ["nvidia.ko", "nvidia-peermem.ko", "mlx5_ib.ko", ""])
def test_modules_of_the_next_kernel_that_are_not_seen_leave_it_open(tree, tmp_path, hidden):
    host = with_modules(tree, tmp_path, PROPRIETARY + STUB, NO_API)
    folder = tree / "lib/modules" / NEWER
    path = next(folder.glob(f"**/{hidden}*")) if hidden else folder
    found = after(HidingHost(host, {path.relative_to(tree).as_posix()}))
    assert found is not None and found.state is State.UNKNOWN


def test_the_drivers_package_alone_is_no_repair_without_the_peer_memory_api(tree, tmp_path):
    """It would bring the proprietary driver and a stub: what the next boot must not find."""
    none = 'without = ["nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm"]\npeermem = "none"\n'
    found = after(with_modules(tree, tmp_path, none, NO_API))
    assert found is not None and found.cause == "driver-not-loaded"
    assert "no peer-memory API" in found.seen
    assert found.commands == (f"sudo apt-get install -y linux-modules-nvidia-535-server-open-{NEWER}",)


def test_dkms_without_headers_is_told_to_build(tree):
    source = {"var/lib/dkms/nvidia/535.183.01/source/dkms.conf": 'AUTOINSTALL="yes"\n'}
    found = after(newer(tree, **source))
    assert found is not None and found.state is State.BLOCKED
    assert f"sudo dkms autoinstall -k {NEWER}" in found.commands


def test_a_command_that_no_plan_may_have_is_not_printed(tree):
    """Its undo would name a version that no release of the driver has."""
    source = {"var/lib/dkms/nvidia/535 --all/source/dkms.conf": 'AUTOINSTALL="yes"\n'}
    found = after(newer(tree, **source))
    assert found is not None and not any("dkms" in command for command in found.commands)


@pytest.mark.parametrize(
    "files",
    [
        {"modules": "updates/dkms/nvidia.ko:\n"},
        {
            "var/lib/dkms/nvidia/535.183.01/source/dkms.conf": 'AUTOINSTALL="yes"\n',
            f"lib/modules/{NEWER}/build/Makefile": "",
        },
        {"etc/default/grub": "GRUB_DEFAULT=1\n"},
    ],
    ids=["has the driver", "DKMS builds it at boot", "may not boot"],
)
def test_a_newer_kernel_of_which_less_is_known_leaves_it_open(tree, files):
    found = after(newer(tree, **files))
    assert found is not None and found.state is State.UNKNOWN


def test_a_newer_kernel_that_is_not_the_default_changes_nothing(tree):
    entry = f'GRUB_DEFAULT="Advanced options for Ubuntu>Ubuntu, with Linux {RUNNING}"\n'
    found = after(newer(tree, **{"etc/default/grub": entry}))
    assert found == NextBoot(state=State.READY, kernel=RUNNING)


# -- where there is no such verdict ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["zgx-3285", "ofed-rebuilt", "kernel-upgraded", "no-gpu"])
def test_a_node_that_is_not_ready_now_has_none(name):
    assert known(name) is None


@pytest.mark.parametrize("name", ["gpu-operator-already-loaded", "nv-peer-mem-conflict"])
def test_what_others_load_is_not_known(name):
    found = known(name)
    assert found is not None and found.state is State.UNKNOWN and found.seen


def test_a_root_in_memory_comes_from_an_image_that_is_not_seen(tree):
    (tree / PERSISTENT).unlink()
    mounts = "28 1 0:30 / / rw,relatime shared:1 - tmpfs rootfs rw\n"
    found = after(write(tree, **{"proc/self/mountinfo": mounts, "proc/1/cgroup": "0::/init.scope\n"}))
    assert found is not None and found.state is State.UNKNOWN


def test_what_is_unknown_changes_neither_the_exit_code_nor_the_verdict():
    report = report_on(node_of(open_host(str(laid_down("nv-peer-mem-conflict")))))
    assert report.next_boot is not None and report.next_boot.state == "unknown"
    assert report.verdict.state == "ready" and "Boot     Not known" in text(report)
    assert exit_code(report) == exit_code(replace(report, next_boot=None))
    assert line(report) == line(replace(report, next_boot=None))


# -- honesty and economy -----------------------------------------------------------------------------------

HIDDEN = (
    "lib/modules", "boot", "etc/modules-load.d", "etc/modprobe.d", "etc/systemd/system", "etc/udev/rules.d",
    "etc/rc.local", "etc/os-release", "proc/self/mountinfo", "proc/modules", "sys/module", "proc/cmdline",
    "sys/kernel/mm/memory_peers", "etc/default/grub",
)  # fmt: skip


@pytest.mark.parametrize("name", ["dgx-a100-proprietary", "rhel-9-mofed", "ubuntu-6.8-h100"])
@pytest.mark.parametrize("hidden", HIDDEN)
def test_hidden_evidence_never_blocks_the_next_boot(name, hidden):
    found = after(HidingHost(open_host(str(laid_down(name))), {hidden}))
    assert found is None or found.state in (State.READY, State.UNKNOWN)


@pytest.mark.parametrize("hidden", HIDDEN)
def test_hidden_evidence_names_no_other_cause(hidden):
    found = after(HidingHost(open_host(str(laid_down("volta-proprietary"))), {hidden}))
    assert found is None or found.state is State.UNKNOWN or found.cause == "peermem-not-persistent"


class CountingNode(Node):
    """A node that counts the suppositions made on it."""

    supposed = 0

    def after(self, step, changes):
        CountingNode.supposed += 1
        return super().after(step, changes)


def test_a_boot_that_changes_nothing_is_not_judged_again(monkeypatch):
    node = CountingNode(open_host(str(laid_down("dgx-a100-proprietary"))))
    verdict = judge_node(node)
    monkeypatch.setattr(CountingNode, "supposed", 0)
    assert next_boot(node, verdict, NAMES[0]) is not None
    assert CountingNode.supposed == 0


# -- the initramfs -----------------------------------------------------------------------------------------


def holding(name: str, folder: Path, *modules: str) -> NextBoot:
    """The next boot of a node whose initramfs holds these modules, and one of a file system."""
    folder.mkdir(exist_ok=True)
    tree = build(name, folder)
    kernel = next((tree / "lib/modules").iterdir()).name
    lines = [f"usr/lib/modules/{kernel}/{module}.ko.xz\n" for module in ("kernel/fs/xfs/xfs", *modules)]
    found = after(write(tree, **{"sos_commands/boot/lsinitrd": "".join(lines)}))
    assert found is not None
    return found


CORE = "drivers/infiniband/core"


def test_the_next_boot_is_sure_where_the_initramfs_holds_none_of_the_modules(tmp_path):
    found = holding("ofed-upgraded", tmp_path)
    assert (found.state, found.cause) == (State.BLOCKED, "module-crc-mismatch")
    assert found.confidence is Confidence.CERTAIN


def test_an_initramfs_with_the_kernels_own_rdma_core_keeps_no_node_ready(tmp_path):
    """OFED was installed and started, and nobody wrote the initramfs again."""
    own = (f"kernel/{CORE}/ib_core", f"kernel/{CORE}/ib_uverbs")
    assert holding("rhel-9-mofed", tmp_path / "own", *own).state is not State.READY
    installed = tuple(module.replace("kernel/", "extra/mlnx-ofa_kernel/") for module in own)
    assert holding("rhel-9-mofed", tmp_path / "installed", *installed).state is State.READY
