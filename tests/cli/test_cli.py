"""The command `gdr`: as it is installed where its start is the subject, else in a fork of this process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gdrkit.cli import COMMANDS
from tests.cli import forked
from tests.evidence_nodes import laid_down

GDR = Path(sys.executable).parent / "gdr"


def gdr(*arguments: str, **environment: str) -> forked.Ended:
    return forked.gdr(arguments, environment=os.environ | environment)


def installed(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [GDR, *arguments], capture_output=True, text=True, env={**os.environ, **environment}
    )


@pytest.fixture(scope="module")
def spark() -> str:
    return str(laid_down("zgx-3285"))


@pytest.fixture(scope="module")
def blocked() -> str:
    return str(laid_down("ofed-rebuilt"))


@pytest.fixture(scope="module")
def unknown() -> str:
    return str(laid_down("ubuntu-6.8-h100-no-verbs"))


def test_python_runs_the_package_as_the_command():
    run = subprocess.run([sys.executable, "-m", "gdrkit", "--version"], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, installed("--version").stdout, "")
    wrong = subprocess.run([sys.executable, "-m", "gdrkit", "docktor"], capture_output=True, text=True)
    assert (wrong.returncode, wrong.stderr) == (64, installed("docktor").stderr)


def test_help_all_lists_every_command():
    run = gdr("help", "all")
    assert run.code == 0
    assert all(f"  {command} " in run.out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(command):
    run = gdr(*command.split(), "--help")
    assert run.code == 0 and "examples:" in run.out and run.out.startswith(f"usage: gdr {command}")


@pytest.mark.parametrize(
    "arguments",
    [(), ("docktor",), ("doctor", "--no-such"), ("completion", "ksh"), ("doctor", "a", "b", "c")],
)
def test_wrong_usage_is_64_and_refers_to_the_help(arguments):
    run = gdr(*arguments)
    assert run.code == 64
    assert "Traceback" not in run.err
    assert "--help" in run.err or "gdr help" in run.out


def test_a_misspelt_command_gets_a_suggestion():
    assert "did you mean 'doctor'" in gdr("docktor").err


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF", b"hello\n", b"\x1f\x8b\x08garbage", b"PK\x03\x04", b"[1, 2"]
)
def test_an_unsupported_target_is_66_and_prints_at_most_two_lines(tmp_path, content):
    (tmp_path / "target").write_bytes(content)
    run = gdr("doctor", str(tmp_path / "target"))
    assert run.code == 66
    assert "Traceback" not in run.err and len(run.err.splitlines()) <= 2


def test_a_nonexistent_target_is_66():
    assert gdr("doctor", "/no/such/thing").code == 66


def test_any_machine_gets_a_verdict():
    run = gdr("doctor", "--json")
    assert run.code in (0, 1, 2, 3) and run.err == ""
    assert json.loads(run.out)["schema"] == "gdrkit.report/1"


def test_exit_codes_follow_the_verdict(spark, blocked, unknown):
    assert [gdr("doctor", target, "-q").code for target in (spark, blocked, unknown)] == [0, 2, 3]


def test_require_direct_makes_impossible_exit_with_2(spark):
    assert gdr("doctor", spark, "-q", "--require", "direct").code == 2


def test_a_code_that_was_named_exits_with_2_and_comes_first(unknown):
    """A verdict that is unknown stays it, and a code that only an expectation shows needs one."""
    lost = str(laid_down("gpu-gone"))
    named, other = ("--fail-on", "gpu-missing"), ("--fail-on", "link-degraded")

    assert [gdr("doctor", lost, "-q", *words).code for words in ((), other, named)] == [1, 1, 2]
    assert ": ready, warning gpu-missing: " in gdr("doctor", lost, "--line", *other, *named).out
    assert gdr("doctor", lost, "-q", *named, "--exit-style", "npd").code == 1
    assert gdr("doctor", unknown, "-q", "--fail-on", "iommu-translating").code == 3
    assert gdr("doctor", lost, "--fail-on", "expected-gpu-missing").code == 64
    assert "did you mean 'gpu-missing'" in gdr("doctor", lost, "--fail-on", "gpu-mising").err


@pytest.mark.parametrize(
    ("style", "codes"), [("nagios", [0, 2, 3]), ("npd", [0, 1, 2]), ("slurm", [0, 1, 0])]
)
def test_exit_styles_map_the_exit_codes(spark, blocked, unknown, style, codes):
    targets = (spark, blocked, unknown)
    assert [gdr("doctor", t, "-q", "--exit-style", style).code for t in targets] == codes


def test_quiet_prints_nothing(spark):
    run = gdr("doctor", spark, "--quiet")
    assert (run.out, run.err) == ("", "")


def test_line_is_one_line(spark):
    run = gdr("doctor", spark, "--line")
    assert run.out.count("\n") == 1 and len(run.out) <= 81


ASCII = {"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "ascii"}


@pytest.mark.parametrize(
    ("columns", "characters"),
    [("60", {"LC_ALL": "C.UTF-8"}), ("200", {"LC_ALL": "C.UTF-8"}), ("60", ASCII), ("200", {"LC_ALL": "C"})],
    ids=str,
)
def test_the_node_is_drawn_in_the_terminals_width_and_characters(columns, characters):
    node = str(laid_down("rail-down"))
    plain = installed("doctor", node, COLUMNS=columns, **characters).stdout
    drawn = installed("doctor", node, "-v", COLUMNS=columns, TERM="dumb", **characters).stdout
    corner, cross = ("\N{BOX DRAWINGS LIGHT DOWN AND RIGHT}", "\N{MULTIPLICATION SIGN}")
    if characters != {"LC_ALL": "C.UTF-8"}:
        assert drawn.isascii()
        corner, cross = "+", "x"
    for printed in (plain, drawn):
        picture = printed[printed.index(f"{corner} NUMA node 0") :].partition("\n\n")[0]
        assert max(map(len, picture.splitlines())) <= int(columns)
        assert f"{cross} DOWN" in picture and "mlx5_7" in picture and "\x1b" not in printed


def test_verbose_shows_the_evidence(spark):
    shown = gdr("doctor", spark, "-v").out
    assert "Evidence" in shown and "nvidia-peermem.ko" in shown


def test_the_verdict_is_that_of_the_chosen_consumer(spark):
    assert (
        json.loads(gdr("doctor", spark, "--json", "--consumer", "verbs").out)["verdict"]["consumer"]
        == "verbs"
    )


def test_modprobe_prints_what_modprobe_would(spark):
    run = gdr("modprobe", "nvidia-peermem", spark)
    assert run.code == 2
    assert run.out.startswith(
        "modprobe: ERROR: could not insert 'nvidia_peermem': Key was rejected by service"
    )


def test_modprobe_of_an_unknown_module(spark):
    run = gdr("modprobe", "no_such_module", spark, "--json")
    section = json.loads(run.out)
    assert (run.code, section["reason"]) == (2, "module-not-found")


def test_a_code_has_a_page_and_a_misspelt_one_gets_a_suggestion():
    assert gdr("codes", "peermem-stub").out.startswith("peermem-stub\n")
    run = gdr("codes", "peermem-stab")
    assert run.code == 64 and "did you mean 'peermem-stub'" in run.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_command(shell):
    run = gdr("completion", shell)
    assert run.code == 0 and all(command in run.out for command in COMMANDS)


def test_a_closed_pipe_is_not_an_error(spark):
    run = subprocess.run(["sh", "-c", f"{GDR} doctor {spark} --json | head -c 10"], capture_output=True)
    assert run.stderr == b""


def test_output_in_an_encoding_without_the_characters(spark):
    assert installed("doctor", spark, PYTHONIOENCODING="ascii").returncode == 0


def test_version():
    assert gdr("--version").out.startswith("gdr ")


def test_the_help_shows_the_six_commands_of_the_first_page_and_where_the_others_are():
    shown = gdr("help").out
    assert shown == gdr("--help").out
    page = (Path(__file__).parent.parent.parent / "README.md").read_text()
    six = re.findall(r"^(?:dmesg \| )?gdr (\w+)", page[page.index("## Six commands") :], re.MULTILINE)
    assert re.findall(r"^  (?:dmesg \| )?gdr (\w+)", shown, re.MULTILINE) == six[:6]
    assert "gdr help all" in shown and "gdr example" in shown and "--version" in shown
    assert len(shown.splitlines()) <= 20
