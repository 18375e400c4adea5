"""modprobe's configuration."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gdrkit.facts.modprobe_config import configuration
from gdrkit.facts.modules_load import autoload
from gdrkit.node import Node
from tests.memory_host import MemoryHost


def a_node(files: dict[str, bytes | str]) -> Node:
    return Node(MemoryHost({"proc/cmdline": "quiet\n", **files}, complete=True))


def test_each_directive_keeps_its_file_and_line() -> None:
    text = (
        "# a comment\n"
        "blacklist nvidia-peermem\n"
        'options nvidia NVreg_EnableResizableBar=1 NVreg_RmMsg="a b"\n'
        "install nvidia-peermem \\\n /bin/false\n"
        "softdep mlx5_ib pre: mlx5-core post: nvidia-peermem\n"
    )
    config = configuration(a_node({"etc/modprobe.d/a.conf": text}))
    listed = config.blacklisted("nvidia_peermem")
    assert listed is not None and (listed.file, listed.line) == ("etc/modprobe.d/a.conf", 2)
    command = config.install_command("nvidia-peermem")
    assert command is not None and (command.value, command.line) == (" /bin/false", 4)
    assert config.options_of("nvidia")[0].value == 'NVreg_EnableResizableBar=1 NVreg_RmMsg="a b"'
    soft = config.soft_dependencies("mlx5_ib")
    assert soft is not None and (soft.pre, soft.post) == (("mlx5_core",), ("nvidia_peermem",))


def test_a_file_in_etc_hides_others_of_its_name_and_names_decide_the_order() -> None:
    config = configuration(
        a_node(
            {
                "etc/modprobe.d/z.conf": "install x /bin/true\n",
                "etc/modprobe.d/same.conf": "# nothing\n",
                "usr/lib/modprobe.d/same.conf": "install x /bin/false\n",
                "run/modprobe.d/a.conf": "install x /bin/echo\n",
                "etc/modprobe.d/x.conf.disabled": "install x rm\n",
            }
        )
    )
    assert [entry.value for entry in config.install] == ["/bin/echo", "/bin/true"]


def test_the_kernels_command_line_has_a_blacklist_and_options() -> None:
    line = 'modprobe.blacklist=nouveau,nvidia-peermem nvidia.NVreg_X=1 a.b="c d" root=/dev/x.y a.b.c=1\n'
    config = configuration(a_node({"proc/cmdline": line}))
    assert config.blacklisted("nouveau") is not None
    # kmod does not replace the dash in this one, so it has no effect
    assert config.blacklisted("nvidia_peermem") is None
    assert [(e.name, e.value) for e in config.options] == [("nvidia", "NVreg_X=1"), ("a", 'b="c d"')]


def test_patterns_match_in_install_lines_but_not_in_blacklists() -> None:
    config = configuration(a_node({"etc/modprobe.d/a.conf": "install nvidia* /bin/false\nblacklist nv*\n"}))
    assert config.install_command("nvidia_uvm") is not None
    assert config.blacklisted("nvidia") is None


def test_lines_that_modprobe_cannot_parse_are_listed_separately() -> None:
    config = configuration(a_node({"etc/modprobe.d/a.conf": "nonsense x\ninstall\n # indented comment\n"}))
    assert [entry.name for entry in config.ignored] == ["nonsense", "install", "#"]


def test_modules_loaded_at_boot_come_from_several_files() -> None:
    node = a_node(
        {
            "etc/modules-load.d/nvidia.conf": "# comment\nnvidia-peermem\n",
            "etc/modules": "ib_umad\n",
            "usr/lib/modules-load.d/nvidia.conf": "hidden\n",
        }
    )
    assert [(entry.name, entry.line) for entry in autoload(node)] == [("nvidia_peermem", 2), ("ib_umad", 1)]


@given(st.text())
def test_any_text_is_a_configuration(text: str) -> None:
    configuration(a_node({"etc/modprobe.d/a.conf": text.encode("utf-8", "replace")}))
