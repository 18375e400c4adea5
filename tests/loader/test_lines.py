"""What decides a prediction: install lines of modprobe.d, earlier lines of the log, versions of kernels.

What is predicted is compared whole, besides what each test asserts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.kernel import version
from gdrkit.facts.linkage import InheritedTaint, SymbolFault, SymbolProblem
from gdrkit.facts.modprobe_arguments import ModprobeOptions
from gdrkit.facts.module_state import Corruption, ModuleFlaw
from gdrkit.facts.trust import signature
from gdrkit.loader.effort import STEPS_LIMIT, Effort
from gdrkit.loader.modprobe import options_of
from gdrkit.loader.refusals import on_flaw, on_inherited, on_problem, on_unsupported
from gdrkit.loader.taints import mask_of
from gdrkit.node import Node
from tests.facts.test_trust import MOK, PLAIN, secured
from tests.kernel_tree import KernelTree
from tests.known_answers import modprobe, note
from tests.loader.shared import full
from tests.memory_host import MemoryHost
from tests.module_builder import append_signature, sign


def configured(*lines: str) -> Node:
    """A machine with the modules x and y, and this modprobe.d."""
    conf = "".join(f"{line}\n" for line in lines)
    return KernelTree().module("x").module("y").put("etc/modprobe.d/a.conf", conf).node()


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("/bin/true", 0),
        ("/bin/false", 1),
        ("/bin/true && /bin/false", 1),
        ("/bin/false && /usr/bin/decide", 1),
        ("/bin/false || /bin/true", 0),
        ("/bin/true || /usr/bin/decide", 0),
        ("/bin/false || /bin/false", 1),
        ("/bin/false ; /bin/true", 0),
        ("/bin/false && /bin/false || /bin/true", 0),
        ("exit 3 ; /bin/true", 3),
        ("exit ; /usr/bin/decide", 0),
        ("/bin/true ; exit 7", 7),
        ("modprobe", 1),
        ("modprobe -q", 1),
        ("modprobe nosuch ; /bin/true", 0),
        ("modprobe nosuch || exit 4", 4),
        ("/bin/true && /usr/bin/decide", None),
        ("/bin/false || /usr/bin/decide", None),
        ("/usr/bin/decide ; /bin/false", None),
    ],
)
def test_the_status_of_an_install_line_is_that_of_its_last_command(command: str, status: int | None) -> None:
    found = modprobe(configured(f"install x {command}"), "x")
    assert found.result_unknown is (status is None)
    assert found.exit_code == (1 if status else 0)
    assert found.loaded is False
    failed = [line for line in found.stderr if "retcode" in line]
    assert [line.rpartition(" ")[2] for line in failed] == ([str(status)] if status else [])
    first = "module-not-found" if "nosuch" in command else "install-override"
    assert found.reason == ("" if status is None else first)


@pytest.mark.parametrize("command", ["modprobe -i x", "modprobe y && modprobe -i x $CMDLINE_OPTS"])
def test_an_install_line_that_loads_the_module_loads_it(command: str) -> None:
    found = modprobe(configured(f"install x {command}"), "x", ("n=1",))
    assert (found.loaded, found.exit_code, found.reason) == (True, 0, "")


@pytest.mark.parametrize(("depth", "ends"), [(7, True), (8, False), (9, False)])
def test_eight_install_lines_within_each_other_are_followed(depth: int, ends: bool) -> None:
    """More are a loop, so the result is unknown."""
    lines = [f"install n{number} modprobe n{number + 1}" for number in range(depth)]
    found = modprobe(configured(*lines, f"install n{depth} /bin/false"), "n0")
    assert found.result_unknown is not ends
    assert (found.exit_code, len([row for row in found.stderr if "retcode" in row])) == (
        (1, depth + 1) if ends else (0, 0)
    )


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (("-b", "a=1"), ModprobeOptions(arguments="a=1", use_blacklist=True)),
        (("-v", "a", "-q", "b=c d", "e="), ModprobeOptions(arguments='a b="c d" e=', quiet=True)),
        (('a="b c"', "d='e f'"), ModprobeOptions(arguments="a=\"b c\" d='e f'")),
        (("--first-time", "-i"), ModprobeOptions(first_time=True, ignore_install=True)),
        (("--show",), ModprobeOptions(dry_run=True)),
        (("a b",), ModprobeOptions(arguments="a b")),
    ],
)
def test_options_and_arguments_may_be_mixed(given: tuple[str, ...], options: ModprobeOptions) -> None:
    assert options_of(given) == options


def test_a_quiet_modprobe_prints_no_error_and_has_the_same_status() -> None:
    for name in ("nosuch", "x"):
        found = modprobe(configured("install x /bin/false"), name, ("-q",))
        assert (found.exit_code, found.stderr) == (1, ())


def test_a_dry_run_loads_nothing() -> None:
    found = modprobe(configured(), "x", ("-n",))
    assert (found.exit_code, found.loaded, found.kernel_log) == (0, False, ())


def test_an_old_refusal_of_a_registration_leaves_the_next_open() -> None:
    tree = full(KernelTree())
    line = "nvidia-peermem nv_mem_client_init:482 nv_mem_client_init -- error while registering nc client"
    tree.commands["dmesg",] = f"[    0.0] Linux version\n[   10.0] {line}\n"
    found = modprobe(tree.node(), "nvidia_peermem")
    assert (found.loaded, found.reason, found.unless) == (True, "", ("peermem-registration-refused",))


def test_a_refusal_for_a_name_that_is_free_again_leaves_nothing_open() -> None:
    tree = full(KernelTree()).put("sys/kernel/mm/memory_peers/other/version", "1\n")
    line = "nvidia-peermem nv_mem_client_init:482 nv_mem_client_init -- error while registering nc client"
    taken = "sysfs: cannot create duplicate filename '/kernel/mm/memory_peers/nv_mem'"
    tree.commands["dmesg",] = f"[    0.0] Linux version\n[    9.0] {taken}\n[   10.0] {line}\n"
    found = modprobe(tree.node(), "nvidia_peermem")
    assert (found.loaded, found.reason, found.unless) == (True, "", ())


def test_a_machine_without_any_sign_of_taints_counts_as_freshly_booted() -> None:
    tree = KernelTree().module("x").without("proc/sys/kernel/tainted")
    host = tree.host()
    del host.files["proc/modules"]
    host.complete = False
    assert mask_of(Node(host)) == 0


def test_the_taints_of_loaded_modules_make_the_mask_and_other_letters_none() -> None:
    tree = KernelTree().module("a", loaded="POE").module("b", loaded="X").module("c", loaded="KN")
    assert (
        mask_of(tree.without("proc/sys/kernel/tainted").node()) == 1 | 1 << 12 | 1 << 13 | 1 << 15 | 1 << 18
    )


@pytest.mark.parametrize(
    ("shape", "line"),
    [
        ({"staging": "Y"}, "x: module is from the staging directory, the quality is unknown"),
        ({"livepatch": "Y"}, "x: tainting kernel with TAINT_LIVEPATCH"),
        ({"test": "Y"}, "x: loading test module taints kernel."),
    ],
)
def test_a_module_of_a_kind_that_taints_says_so(shape: dict[str, str], line: str) -> None:
    found = modprobe(KernelTree().module("x", modinfo=shape, intree=True).node(), "x")
    assert any(row.startswith(line) for row in found.kernel_log), found.kernel_log


def kernel(release: str) -> Node:
    return Node(MemoryHost({"proc/sys/kernel/osrelease": release}, complete=True))


RELEASES = ["4.18.0-1", "4.19.0-1", "5.3.0-1", "5.4.0-1", "5.14.0-1", "5.15.0-1", "5.18.0-1", "5.19.0-1",
            "6.3.0-1", "6.4.0-1", "6.12.0-1", "6.13.0-1"]  # fmt: skip


@pytest.mark.parametrize("release", RELEASES)
def test_the_wording_of_each_kernel(release: str) -> None:
    """At each version since which a message has another wording, and at the one before."""
    node = kernel(release)
    assert version(node)
    for fault in SymbolFault:
        problem = SymbolProblem("alpha", fault, owner="needed", namespace="SPACE")
        note(f"{fault.name}: {'; '.join(on_problem(node, 'x', problem))}")
    note(on_inherited(node, "x", InheritedTaint("alpha", "needed")))
    for kind in Corruption:
        for number in (-1, 0, 7):
            if said := on_flaw(node, ModuleFlaw(kind, number=number, limit=9), "x-y"):
                note(f"{kind.name} {number}: {said}")


def test_a_signature_of_another_kind_is_named_alone() -> None:
    tree = secured().module("x", content=append_signature(PLAIN, b"x" * 40, id_type=1))
    assert on_unsupported(tree.node(), tree.path("x"), "bad-id-type") == [
        "module: not signed with expected PKCS#7 message"
    ]


@pytest.mark.parametrize(("release", "number"), [("6.1", 98), ("6.8", 102), ("6.12", 103), ("6.5", None)])
def test_the_number_of_an_unknown_digest_is_that_of_the_kernel(release: str, number: int | None) -> None:
    """Of a kernel whose header was not read, only the other lines are predicted."""
    tree = secured().module("x", content=sign(PLAIN, MOK, digest="sha1"))
    node, path = tree.node(), tree.path("x")
    found = signature(node, path)
    assert found is not None
    kernel_version = version.becomes(tuple(map(int, release.split("."))))
    node = node.after("x", [kernel_version, signature.becomes(replace(found, digest="sha3_256"), path)])
    lines = on_unsupported(node, path, "")
    note("\n".join(lines))
    assert [line for line in lines if str(number) in line] == lines[-1:] * (number is not None)


def test_steps_are_counted_to_the_limit() -> None:
    effort = Effort()
    effort.spend(STEPS_LIMIT - 1)
    effort.spend()
    with pytest.raises(EvidenceMissing, match="2000 steps"):
        effort.spend()


@pytest.mark.parametrize(("release", "twice"), [((6, 3), False), ((6, 4), True), ((6, 8), True)])
def test_a_license_that_taints_is_said_twice_since_6_4(release: tuple[int, ...], twice: bool) -> None:
    node = KernelTree().module("x", license="NVIDIA").node().after("another", [version.becomes(release)])
    assert ("x: module license taints kernel." in modprobe(node, "x").kernel_log) is twice


def test_without_the_file_of_one_dependency_those_that_are_loaded_still_serve() -> None:
    tree = KernelTree().module("there", exports={"alpha": 1}, loaded="OE").module("gone")
    tree.module("x", imports={"alpha": 1}, depends=("there", "gone")).without(tree.path("gone"))
    found = modprobe(tree.node(), "x")
    assert found.reason == "" and len(found.stderr) == 2
    assert not any("Unknown symbol" in line for line in found.kernel_log)
