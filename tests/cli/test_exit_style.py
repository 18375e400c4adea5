"""Whatever happens, the exit code is one that the caller understands; and the line for its table."""

import subprocess
import sys
from pathlib import Path

import pytest

from gdrkit.cli import main
from gdrkit.cli.exit import STYLES, in_style
from tests.cli.test_streams import GDR
from tests.evidence_nodes import laid_down

UNKNOWN = {"nagios": 3, "npd": 2, "slurm": 0}
WRONG = (
    ["doctor", "--no-such-option"], ["doctor", "a", "b"], ["doctor", "/nope"], ["docktor"],
    ["doctor", "/dev/null"],    ["doctor", "--consumer", "banana"], ["fix"], ["doctor", "--require"],
    ["doctor", "--json", "--line"], ["doctor", ""], ["help", "doctor", "--line"],
)  # fmt: skip


@pytest.mark.parametrize("style", UNKNOWN)
@pytest.mark.parametrize("wrong", WRONG, ids=" ".join)
def test_an_error_is_the_callers_unknown_and_says_why(style, wrong, capsys):
    for form in (["--exit-style", style], [f"--exit-style={style}"]):
        for arguments in ([*form, *wrong], [wrong[0], *form, *wrong[1:]], [*wrong, *form]):
            assert main(arguments) == UNKNOWN[style], arguments
            out, error = capsys.readouterr()
            assert error
            said = "" if style == "slurm" else f"unknown {error.splitlines()[0]}\n"
            assert out == said or (len(said) > 81 and said.startswith(out.removesuffix("...\n")) and out)


@pytest.mark.parametrize("style", ["nagios", "npd"])
def test_an_error_on_standard_output_has_one_line_of_80_characters(style, capsys):
    """node-problem-detector keeps 80 characters, and Nagios takes what follows a bar for numbers."""
    assert main(["doctor", "--exit-style", style, "--line", "/nope|\x1b" + "n" * 5000]) == UNKNOWN[style]
    out = capsys.readouterr().out
    assert out.startswith("unknown gdr doctor: ") and len(out) <= 81 and not set("|\x1b") & set(out)


@pytest.mark.parametrize(
    "typo",
    [["--exit-stile", "slurm"], ["--exit-style", "slrum"], ["--exitstyle=slurm"], ["--exit-style", "Slurm"],
     ["--Exit-Style=slurm"], ["--exit-style=slurm "], ["--exit-styles", "slurm"]],
)  # fmt: skip
def test_a_typo_in_a_prolog_drains_no_node(typo):
    assert main(["doctor", *typo]) == 0


def test_no_style_can_be_guessed():
    assert main(["doctor", "--exit-style", "banana"]) == 64
    assert main(["doctor", "--exit-style"]) == 64


@pytest.mark.parametrize("style", UNKNOWN)
def test_a_code_that_is_no_verdict_is_unknown_in_every_style(style):
    assert {in_style(code, ["--exit-style", style]) for code in range(3, 256)} == {UNKNOWN[style]}
    assert in_style(2, ["--exit-style", style]) == STYLES[style][2] != 0


def test_output_that_fails_is_unknown():
    target = str(laid_down("peermem-blacklisted"))
    with Path("/dev/full").open("w") as full:
        run = subprocess.run([*GDR, "doctor", target, "--exit-style", "nagios"], stdout=full, timeout=60)
    assert run.returncode == 3


INTERRUPTED = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {at!r} and self in sys.meta_path:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
from gdrkit.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    "command, last",
    [("doctor", "gdrkit.diagnosis"), ("explain", "gdrkit.explain.explain"), ("modprobe x", "gdrkit.loader"),
     ("probe", "gdrkit.facts.probe"), ("collect -o -", "gdrkit.agent.collect.command"),
     ("topo", "gdrkit.node"),
     ("fix", "gdrkit.node"), ("config udev", "gdrkit.repair.config"), ("nccl", "gdrkit.jobs.logs"),
     ("estimate", "gdrkit.node"), ("bench host", "gdrkit.transport.bench.document"),
     ("prove host", "gdrkit.transport.proof.document"), ("codes", "gdrkit.report.pages"),
     ("schema", "gdrkit.report.document"), ("completion bash", "gdrkit.cli.bench")],
)  # fmt: skip
def test_an_interrupt_while_a_command_is_imported(command, last):
    """Each command is interrupted at its first import, and at one of its last."""
    words = command.split()
    for at in ("gdrkit.cli.exit", f"gdrkit.cli.{words[0]}", last):
        run = subprocess.run(
            [sys.executable, "-c", INTERRUPTED.format(at=at), *words],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
        )  # fmt: skip
        assert run.returncode == 130, (at, run.returncode, run.stderr)
        assert b"Traceback" not in run.stderr, (at, run.stderr)


def test_an_interrupt_in_a_prolog_does_not_drain():
    program = INTERRUPTED.format(at="gdrkit.diagnosis")
    run = subprocess.run(
        [sys.executable, "-c", program, "doctor", "--exit-style=slurm"], capture_output=True
    )
    assert (run.returncode, run.stderr) == (0, b"gdr doctor: interrupted\n")


def test_the_line_names_host_and_cause_and_no_warning_that_changes_nothing(capsys):
    main(["doctor", str(laid_down("zgx-3285")), "--line"])
    shown = capsys.readouterr().out
    assert shown.startswith("zgx-3285: impossible [hardware] gpu-integrated: ") and "mixed" not in shown


def test_nagios_gets_performance_data(capsys):
    main(["doctor", str(laid_down("ubuntu-6.8-h100")), "--line", "--exit-style", "nagios"])
    text, _, data = capsys.readouterr().out.partition(" | ")
    assert text and data.startswith("direct_pairs=")
    for field in data.split():
        label, _, values = field.partition("=")
        assert label.isidentifier() and all(part.isdigit() or not part for part in values.split(";"))


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("ubuntu-6.8-h100", {"gdr": 0, "nagios": 0, "npd": 0, "slurm": 0}),
        ("acs-redirect", {"gdr": 1, "nagios": 1, "npd": 0, "slurm": 0}),  # a warning drains nothing
        ("peermem-blacklisted", {"gdr": 2, "nagios": 2, "npd": 1, "slurm": 1}),
        ("talos", {"gdr": 3, "nagios": 3, "npd": 2, "slurm": 0}),
    ],
)
def test_a_verdict_has_the_code_of_its_caller(name, codes):
    target = str(laid_down(name))
    assert {style: main(["doctor", target, "--exit-style", style]) for style in STYLES} == codes
