"""What every modprobe prints about lines of modprobe.d that it cannot read, held against modprobe itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gdrkit.evidence import Confidence
from gdrkit.facts.modprobe_config import configuration
from gdrkit.loader.complaints import complaints
from gdrkit.node import Node
from tests.kernel_tree import KernelTree
from tests.known_answers import modprobe
from tests.loader.modprobe_witness import Machine, needs_modprobe
from tests.memory_host import MemoryHost
from tests.module_builder import build_module

CONF = "etc/modprobe.d/a.conf"
BAD = "libkmod: ERROR ../libkmod/libkmod-config.c:712 kmod_config_parse: /etc/modprobe.d/a.conf line "
TEXTS = {
    "typo": "option x n=1\n",
    "indented comment": "# fine\n  # not fine\n",
    "semicolon": ";x\n; y\n",
    "byte order mark": "\ufeff# x\n",
    "include": "include /etc/y\nconfig /etc/z\n",
    "carriage returns": "# x\r\n\r\nblacklist x\r\n",
    "nothing after the word": "install\ninstall x\noptions\noptions x\nalias a\nblacklist\nsoftdep x\n",
    "blank value": "options x  \nalias a  \ninstall x \t\n",
    "continued": "nonsense \\\n a \\\n b\n\nmore\n",
    "brackets": "alias a[b x\nalias a]b x\nalias a[b-c]d x\ninstall x] true\n",
    "lone backslash": "bl\\acklist y\nno\\nsense\nx\\\\y\n",
    "words": "Options x n=1\nblacklist: x\n",
    "backslash at the end": "blacklist y\nno\\",
    "two backslashes at the end": "nonsense\\\\",
    "backslash alone": "\\",
    "end of a string": "install \0 true\nblacklist y\0 z\nnon\0sense\n",
    "near miss": "# x\n#y\n\n   \n\t\nblacklist x y z\noptions x n=1\nweakdeps\n",
}


def witnessed(tmp_path: Path, text: str) -> list[str]:
    """The complaints of the real modprobe, with the paths of the made-up machine taken out."""
    machine = Machine(tmp_path, {"extra/y.ko": build_module("y")}, conf=text)
    said = machine.modprobe("-q", "y").stderr
    return [line for line in said.replace(str(tmp_path), "").split("\n") if line.startswith("libkmod:")]


NEWER = 'ID=debian\nVERSION_ID="13"\n'


def is_kmod_30() -> bool:
    said = subprocess.run(["modprobe", "--version"], check=False, capture_output=True, text=True).stdout
    return said.startswith("kmod version 30")


@needs_modprobe
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_complaints_are_those_of_modprobe(tmp_path: Path, text: str) -> None:
    if not is_kmod_30():
        pytest.skip("apt-get install -y kmod, version 30: others name other lines of their source")
    node = KernelTree().module("x").put(CONF, text).node()
    assert list(complaints(node, configuration(node))) == witnessed(tmp_path, text)


def on_suse(os: str, **modinfo: str) -> KernelTree:
    tree = KernelTree().module("x", modinfo=modinfo).put("etc/os-release", os)
    return tree.put(CONF, "allow_unsupported_modules 0\n")


def test_suse_knows_its_own_word_and_refuses_a_module_without_the_mark() -> None:
    """The lines are those that SUSE's kmod printed in public reports; the kernel is never asked."""
    found = modprobe(on_suse('ID="sles"\nID_LIKE="suse"\n').node(), "x")
    assert (found.loaded, found.exit_code, found.kernel_log) == (False, 1, ())
    assert (found.reason, found.confidence) == ("module-unsupported", Confidence.LIKELY)
    assert found.stderr == (
        "modprobe: ERROR: module 'x' is unsupported",
        "modprobe: ERROR: Use --allow-unsupported or set allow_unsupported_modules 1 in",
        "modprobe: ERROR: /etc/modprobe.d/10-unsupported-modules.conf",
        "modprobe: ERROR: could not insert 'x': Operation not permitted",
    )


def test_suse_loads_what_a_partner_supports_and_others_complain_about_the_word() -> None:
    found = modprobe(on_suse('ID="sles"\nID_LIKE="suse"\n', supported="external").node(), "x")
    assert (found.loaded, found.stderr) == (True, ())
    found = modprobe(on_suse("ID=debian\nVERSION_ID=12\n").node(), "x")
    assert found.loaded
    assert found.stderr == (f"{BAD}1: ignoring bad line starting with 'allow_unsupported_modules'",)


@pytest.mark.parametrize("options", [(), ("-q",)])
def test_every_modprobe_complains_even_quietly_and_goes_on(options: tuple[str, ...]) -> None:
    found = modprobe(KernelTree().module("x").put(CONF, "option x n=1\n").node(), "x", options)
    assert (found.loaded, found.exit_code) == (True, 0)
    assert found.stderr == (f"{BAD}1: ignoring bad line starting with 'option'",)


def test_a_modprobe_of_an_install_line_complains_too() -> None:
    conf = "option x n=1\ninstall x modprobe -i x\n"
    assert len(modprobe(KernelTree().module("x").put(CONF, conf).node(), "x").stderr) == 2


def test_kmod_34_names_no_position_and_knows_weak_dependencies() -> None:
    tree = KernelTree().module("x").put(CONF, "weakdep x y\noption x\n")
    newer = tree.put("etc/os-release", 'ID=debian\nVERSION_ID="13"\n')
    place = "libkmod: ERROR: kmod_config_parse: /etc/modprobe.d/a.conf"
    assert modprobe(newer.node(), "x").stderr == (
        f"{place} line 2: ignoring bad line starting with 'option'",
    )
    assert len(modprobe(tree.put("etc/os-release", 'ID=debian\nVERSION_ID="12"\n').node(), "x").stderr) == 2


def test_a_folder_with_the_name_of_a_file_is_a_complaint() -> None:
    found = modprobe(KernelTree().module("x").put("etc/modprobe.d/old.conf/b.conf", "x\n").node(), "x")
    assert found.loaded
    assert found.stderr == (
        "libkmod: ERROR ../libkmod/libkmod-config.c:772 conf_files_filter_out: Directories inside "
        "directories are not supported: /etc/modprobe.d/old.conf",
    )


def linked(target: str, **more: str) -> Node:
    files = KernelTree().module("x").put("usr/lib/modprobe.d/a.conf", "install x /bin/false\n").host().files
    return Node(MemoryHost({**files, **more}, links={CONF: target}, complete=True))


@pytest.mark.parametrize("target", ["/dev/null", "/nosuch"])
def test_a_masked_file_and_a_link_to_nothing_hide_the_file_of_their_name(target: str) -> None:
    found = modprobe(linked(target), "x")
    assert (found.loaded, found.stderr) == (True, ())


@pytest.mark.parametrize(
    ("line", "is_known"), [("weakdep x y", True), ("weakdep a[b c", False), ("weakdep x\u2003y", False)]
)
def test_a_weak_dependency_has_a_name_and_a_value(line: str, is_known: bool) -> None:
    tree = KernelTree().module("x").put(CONF, f"{line}\n").put("etc/os-release", NEWER)
    assert bool(modprobe(tree.node(), "x").stderr) is not is_known


def test_kmod_34_gives_the_end_of_a_file_no_character() -> None:
    tree = KernelTree().module("x").put(CONF, "blacklist y\n\\").put("etc/os-release", NEWER)
    assert modprobe(tree.node(), "x").stderr == ()


def test_a_folder_hides_no_file_of_its_name() -> None:
    found = modprobe(linked("/opt", **{"opt/any": ""}), "x")
    assert (found.reason, "Directories" in found.stderr[0]) == ("install-override", True)


def test_where_lib_is_a_link_a_newer_kmod_comes_across_a_folder_twice() -> None:
    files = KernelTree().module("x").put("etc/os-release", NEWER).host().files
    moved = {path.replace("lib/", "usr/lib/", 1): content for path, content in files.items()}
    host = MemoryHost(
        {**moved, "usr/lib/modprobe.d/d.conf/any": ""}, links={"lib": "usr/lib"}, complete=True
    )
    said = modprobe(Node(host), "x").stderr
    assert [line.rpartition(" ")[2] for line in said] == [
        "/usr/lib/modprobe.d/d.conf", "/lib/modprobe.d/d.conf",
    ]  # fmt: skip


def test_a_link_to_a_file_is_read() -> None:
    node = linked("/etc/other", **{"etc/other": "install x /bin/true\n"})
    assert not modprobe(node, "x").loaded


@needs_modprobe
def test_alias_files_count_for_kmod_30_and_not_for_34(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"extra/x.ko": build_module("x")})
    (machine.conf / "b.alias").write_text("alias nick x\n")
    tree = KernelTree().module("x").put("etc/modprobe.d/b.alias", "alias nick x\n")
    assert modprobe(tree.node(), "nick").exit_code == 0
    if is_kmod_30():
        assert machine.modprobe("nick").returncode == 0
    assert modprobe(tree.put("etc/os-release", 'ID=debian\nVERSION_ID="13"\n').node(), "nick").exit_code == 1


def test_a_version_that_is_not_known_makes_the_words_likely() -> None:
    tree = (
        KernelTree()
        .module("x")
        .put(CONF, "option x\ninstall x /bin/false\n")
        .put("etc/os-release", "ID=z\n")
    )
    found = modprobe(tree.node(), "x")
    assert (found.exit_code, found.confidence) == (1, Confidence.LIKELY)


def test_a_kmod_30_without_debugging_names_only_the_function() -> None:
    tree = (
        KernelTree().module("x").put(CONF, "option x\n").put("etc/os-release", 'ID=rhel\nVERSION_ID="9.4"\n')
    )
    place = "libkmod: kmod_config_parse: /etc/modprobe.d/a.conf line 1"
    assert modprobe(tree.node(), "x").stderr == (f"{place}: ignoring bad line starting with 'option'",)


def test_a_link_that_leads_back_to_itself_is_a_link_to_nothing() -> None:
    found = modprobe(linked("a.conf"), "x")
    assert (found.loaded, found.stderr, found.unless) == (True, (), ())
    newer = linked("/etc/modprobe.d/a.conf", **{"etc/os-release": 'ID=debian\nVERSION_ID="13"\n'})
    complaint = "libkmod: ERROR: conf_files_filter_out: Cannot stat directory entry: /etc/modprobe.d/a.conf"
    found = modprobe(newer, "x")  # there it does not hide the other file of its name
    assert (found.stderr[0], found.exit_code, found.reason) == (complaint, 1, "install-override")


def test_a_masked_file_hides_the_other_of_its_name_in_every_version() -> None:
    newer = linked("/dev/null", **{"etc/os-release": 'ID=debian\nVERSION_ID="13"\n'})
    found = modprobe(newer, "x")
    assert (found.loaded, found.stderr) == (True, ())
