"""Commands of install lines: modprobe with its options, and what sh does with the line."""

from __future__ import annotations

import subprocess

import pytest

from gdrkit.facts.install_command import Effect, effect
from gdrkit.loader import Prediction
from tests.kernel_tree import KernelTree
from tests.known_answers import modprobe

NOT_FOUND = "modprobe: FATAL: Module {} not found in directory /lib/modules/6.1.0-56-amd64"
MISSING = "modprobe: ERROR: missing parameters. See -h."


def install(line: str, *, loaded: str | None = None, options: tuple[str, ...] = ()) -> Prediction:
    tree = KernelTree().module("x").module("y").module("nv_peer_mem", loaded=loaded)
    return modprobe(tree.put("etc/modprobe.d/a.conf", f"install x {line}\n").node(), "x", options)


def said(found: Prediction) -> tuple[str, ...]:
    """What modprobe said before the two lines about the command."""
    return tuple(line for line in found.stderr if "retcode" not in line and "could not insert" not in line)


@pytest.mark.parametrize(
    "command", ["modprobe -r nv_peer_mem; modprobe -i x", "modprobe -ri nosuch; modprobe -i x"]
)
def test_unload_first_loads_the_module_where_the_other_is_not_loaded(command: str) -> None:
    found = install(command)
    assert (found.loaded, found.exit_code, found.inserted) == (True, 0, ("x",))


def test_removing_loads_nothing() -> None:
    found = install("modprobe -r nv_peer_mem")
    assert (found.loaded, found.inserted, found.reason) == (False, (), "install-override")


def test_whether_a_loaded_module_can_be_removed_is_not_known() -> None:
    found = install("modprobe -r nv_peer_mem && modprobe -i x", loaded="OE")
    assert found.undecided and found.result_unknown
    assert install("modprobe -r nv_peer_mem; modprobe -i x; exit 1", loaded="OE").undecided


@pytest.mark.parametrize(
    ("command", "words", "exit_code"),
    [
        ("modprobe", (MISSING,), 1),
        ("modprobe -q", (MISSING,), 1),
        ("modprobe ''", (NOT_FOUND.format(""),), 1),
        ("modprobe -a y nosuch", (NOT_FOUND.format("nosuch").replace("FATAL", "WARNING"),), 1),
        ("modprobe y && exit 4", (), 1),
        ("modprobe -r nosuch", ("modprobe: FATAL: Module nosuch not found.",), 1),
        ("modprobe -r --first-time y", ("modprobe: FATAL: Module y is not in kernel.",), 1),
        ("/sbin/modprobe --foo y", ("/sbin/modprobe: unrecognized option '--foo'",), 1),
        ("modprobe -q nosuch", (), 1),
        ("modprobe -s nosuch", (), 1),
        ("modprobe nosuch 2>/dev/null", (), 1),
        ("modprobe nosuch >/dev/null 2>&1", (), 1),
        ("modprobe nosuch >/dev/null", (NOT_FOUND.format("nosuch"),), 1),
        ("modprobe nosuch # || true", (NOT_FOUND.format("nosuch"),), 1),
        ("modprobe -n nosuch", (NOT_FOUND.format("nosuch"),), 1),
        ("modprobe --help nosuch", (), None),
        ("modprobe --dry y", (), 0),
        ("modprobe --resolve-alias y", (), 0),
        ("exec modprobe nosuch; /bin/true", (NOT_FOUND.format("nosuch"),), 1),
        ("exec >/dev/null; /bin/false", (), None),
        ("exec; /bin/false", (), 1),
        ("/bin/false\r", ("sh: 1: /bin/false\r: not found",), 1),
        ("/bin/false\r 2>/dev/null", (), 1),
        ("modprobe -i x\r", (NOT_FOUND.format("x\r"),), 1),
        ("modprobe nosuch; modprobe gone 2>/dev/null", (NOT_FOUND.format("nosuch"),), 1),
    ],
)
def test_a_modprobe_that_loads_nothing(command: str, words: tuple[str, ...], exit_code: int | None) -> None:
    found = install(command)
    assert found.result_unknown is (exit_code is None)
    if exit_code is not None:
        assert (found.exit_code, found.loaded) == (exit_code, False)
        assert said(found) == words


def test_a_program_that_nobody_knows_may_have_loaded_it_whatever_is_loaded_after_it() -> None:
    through_another = "modprobe nv_peer_mem; modprobe y\ninstall nv_peer_mem /opt/tool"
    for command in ("/opt/tool", "modprobe y; /opt/tool", through_another):
        found = install(command)
        assert (found.result_unknown, found.reason) == (True, "")
    assert install("modprobe y").reason == "install-override"


@pytest.mark.parametrize(
    "command",
    [
        "modprobe -f -i x",
        "modprobe --force-v -i x",
        "modprobe -C /x -i x",
        "modprobe -S 5.4 y",
        "modprobe -d /x y",
    ],
)
def test_force_and_another_place_leave_the_result_open(command: str) -> None:
    assert install(command).undecided
    assert install(f"{command}; exit 3").undecided


def test_a_quiet_modprobe_makes_those_of_its_install_lines_quiet() -> None:
    found = install("modprobe nosuch", options=("-q",))
    assert (found.exit_code, found.stderr) == (1, ())


@pytest.mark.parametrize(
    "line",
    (
        "true # ; false", "true;# false", "true#; false", "exec true; false", "exec false; true",
        "false >/dev/null", "true 2>&1", "false 2>/dev/null || true", "false </dev/null", "exec; false",
        "exit 3 # 4", "true \t; false",
    ),
)  # fmt: skip
def test_the_shell_agrees_on_what_such_a_line_does(line: str) -> None:
    status = subprocess.run(["/bin/sh", "-c", line], check=False, capture_output=True).returncode
    found = effect(line)
    assert found is Effect.UNKNOWN or (found is Effect.FAILS) is (status != 0)
    assert found is not Effect.UNKNOWN or "#;" in line


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("modprobe -r nv_peer_mem; modprobe -i x", Effect.LOADS),
        ("modprobe -r nv_peer_mem", Effect.NOTHING),
        ("modprobe --nonsense x", Effect.FAILS),
        ("modprobe -n x", Effect.NOTHING),
        ("modprobe -c", Effect.UNKNOWN),
        ("modprobe", Effect.FAILS),
        ("exec modprobe -i x", Effect.LOADS),
    ],
)
def test_the_effect_of_a_modprobe_depends_on_its_options(line: str, expected: Effect) -> None:
    assert effect(line) is expected
