"""Lines that keep the next boot from loading what runs now, and lines that look like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.diagnosis import node_of, report_on
from gdrkit.evidence import Confidence
from gdrkit.evidence.target import open_host
from gdrkit.repair.next_boot import NextBoot, next_boot
from gdrkit.report.exit_code import exit_code
from gdrkit.report.text import text
from gdrkit.verdict import judge_node
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import build

KERNEL = "6.8.0-45-generic"
MODPROBE = "etc/modprobe.d/site.conf"
GRUB = "etc/default/grub"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A plain tree of a node that is ready over dma-buf, with the kernel's own mlx5, to be changed."""
    tree = build("ubuntu-6.8-h100", tmp_path)
    (tree / "gdr_manifest.json").unlink()
    return tree


def after(tree: Path, files: dict[str, str], consumer: str = "nccl") -> NextBoot:
    for path, content in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(content)
    node = node_of(open_host(str(tree)))
    found = next_boot(node, judge_node(node, asked=consumer), consumer)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("install nvidia /bin/false", "nvidia"),
        ("install nvidia /bin/true", "nvidia"),
        ("install nvidia-uvm /bin/false", "nvidia_uvm"),  # no CUDA program starts without it
        ("install mlx5_core /bin/false", "mlx5_core"),
        ("install mlx5_* /bin/false", "mlx5_core"),
        ("install ib_uverbs /bin/false", "mlx5_ib"),  # which needs it
        ("blacklist mlx5_core", "mlx5_core"),  # only its devices load it
        ("blacklist mlx5_ib", "mlx5_ib"),
    ],
)
def test_a_line_of_modprobe_takes_the_module_away(tree: Path, line: str, module: str):
    found = after(tree, {MODPROBE: f"# hardening\n{line}\n"})

    assert found.state is State.BLOCKED and found.confidence is Confidence.LIKELY
    assert found.cause == ("module-blacklisted" if line.startswith("blacklist") else "install-override")
    assert found.seen.startswith(f"{module} will not be loaded: ") and f"/{MODPROBE}, line 2" in found.seen
    assert found.advice.startswith(f"Remove line 2 of /{MODPROBE}. Then renew what was made from it: ")


@pytest.mark.parametrize(
    "line",
    [
        "install mlx5_core /sbin/modprobe --ignore-install mlx5_core",  # loads it
        "install mlx4_core /bin/false",  # no device here needs it
        "install nouveau /bin/false",
        "blacklist nouveau",
        "blacklist ib_uverbs",  # a dependency is loaded all the same
        "blacklist nvidia-uvm",  # loaded by its name
        "# install mlx5_core /bin/false",
    ],
)
def test_a_line_that_takes_nothing_away(tree: Path, line: str):
    assert after(tree, {MODPROBE: f"{line}\n"}) == NextBoot(state=State.READY, kernel=KERNEL)


def test_a_blacklist_does_not_keep_a_cuda_program_from_loading_the_driver(tree: Path):
    """nvidia-modprobe does so by name, where it is installed: which is likely."""
    found = after(tree, {MODPROBE: "blacklist nvidia\n"})

    assert (found.state, found.confidence) == (State.READY, Confidence.LIKELY)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("etc/init.d/openibd", "#!/bin/bash\n"),
        ("etc/rc.local", "#!/bin/sh\nmodprobe mlx5_core\n"),
        ("etc/modules-load.d/rdma.conf", "mlx5_ib\n"),  # which needs mlx5_core
    ],
)
def test_what_loads_a_module_by_name_obeys_no_blacklist(tree: Path, path: str, content: str):
    found = after(tree, {MODPROBE: "blacklist mlx5_core\n", path: content})
    assert found.state is State.READY

    found = after(tree, {MODPROBE: "install mlx5_core /bin/false\n"})
    assert found.state is State.BLOCKED


def test_a_list_of_modules_to_load_obeys_a_blacklist(tree: Path):
    lines = "blacklist mlx5_core\nblacklist mlx5_ib\n"
    found = after(tree, {MODPROBE: lines, "etc/modules-load.d/rdma.conf": "mlx5_core\nmlx5_ib\n"})

    assert found.state is State.BLOCKED


def test_a_command_whose_effect_is_not_known_leaves_it_open(tree: Path):
    found = after(tree, {MODPROBE: "install mlx5_core /usr/local/sbin/load-nic\n"})

    assert found.state is State.UNKNOWN and found.seen == f"install mlx5_core in /{MODPROBE}, line 1"


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ({GRUB: 'GRUB_CMDLINE_LINUX="quiet module_blacklist=nouveau,nvidia"\n'}, State.BLOCKED),
        ({GRUB: 'GRUB_CMDLINE_LINUX="modprobe.blacklist=mlx5_core"\n'}, State.BLOCKED),
        ({GRUB: 'GRUB_CMDLINE_LINUX="modprobe.blacklist=nvidia"\n'}, State.READY),
        ({GRUB: '#GRUB_CMDLINE_LINUX="module_blacklist=nvidia"\n'}, State.READY),
        ({GRUB: 'GRUB_CMDLINE_LINUX="module_blacklist=nvidia_drm"\n'}, State.READY),
    ],
)
def test_arguments_of_the_next_kernel(tree: Path, files: dict[str, str], state: State):
    """The running kernel has none of them: whoever wrote them did not boot since."""
    found = after(tree, files)

    assert found.state is state
    assert found.advice.startswith("Remove ") is (state is State.BLOCKED)


def test_what_to_do_names_the_argument_and_not_its_whole_line(tree: Path):
    found = after(tree, {GRUB: 'GRUB_CMDLINE_LINUX="quiet module_blacklist=nouveau,nvidia"\n'})

    assert found.advice.startswith(
        f"Remove nvidia from `module_blacklist=` in line 1 of /{GRUB}. Then renew"
    )


@pytest.mark.parametrize(("kernel", "state"), [(KERNEL, State.BLOCKED), ("6.8.0-31-generic", State.READY)])
def test_an_entry_of_another_kernel_does_not_count(tree: Path, kernel: str, state: State):
    entry = f"linux /vmlinuz-{kernel}\noptions root=/dev/sda2 module_blacklist=mlx5_core\n"
    found = after(tree, {f"boot/loader/entries/0f3a-{kernel}.conf": entry})

    assert found.state is state


def test_the_module_that_registers_by_address(tmp_path: Path):
    """It is listed for the boot, but an install line stops what the list wants."""
    tree = build("ubuntu-22.04-peer-api", tmp_path)
    assert after(tree, {}).state is State.READY

    found = after(tree, {MODPROBE: "install nvidia-peermem /bin/false\n"})
    assert (found.state, found.cause) == (State.BLOCKED, "install-override")


def test_where_dma_buf_stays_open_nothing_is_lost(tree: Path):
    assert after(tree, {MODPROBE: "install nvidia-peermem /bin/false\n"}).state is State.READY


def test_the_screen_warns_of_the_boot(tree: Path):
    (tree / MODPROBE).parent.mkdir(parents=True, exist_ok=True)
    (tree / MODPROBE).write_text("install mlx5_core /bin/false\n")
    report = report_on(node_of(open_host(str(tree))))
    shown = " ".join(text(report).split())

    assert exit_code(report) == 1
    assert "READY now, BLOCKED after the next boot (likely): mlx5_core will not be loaded" in shown
    assert f"Before the reboot: remove line 1 of /{MODPROBE}. Then renew" in shown
