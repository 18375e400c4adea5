"""Completion in interactive shells: what the Tab key makes of a line, on a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
from pathlib import Path

import pytest

from gdrkit.cli import COMMANDS, first_words, main
from gdrkit.cli.completed import BY_METAVAR, FREE, LISTS, OWN, values_of
from gdrkit.cli.described import described
from tests.system_programs import program

READY = "READY>"
RUN = "20261127T010203Z"
SHELLS = {
    "bash": (
        ["--norc", "--noprofile", "-i"],
        "PS1='READY''>'; bind 'set enable-bracketed-paste off'; gdr() { printf '%s\\n' \"$@\" END > got; }",
    ),
    "zsh": (
        ["-f", "-i"],
        "PS1='READY''>'; autoload -U compinit; compinit -D; gdr() { printf '%s\\n' \"$@\" END > got; }",
    ),
    "fish": (
        ["--no-config", "-i"],
        "function fish_prompt; echo -n 'READY''>'; end; function gdr; printf '%s\\n' $argv END > got; end",
    ),
}
"""For each shell its arguments, and a prompt and a gdr to set; that line does not hold the prompt itself."""


class Terminal:
    """A shell on a terminal of its own, in a folder that is its home."""

    def __init__(self, shell: str, home: Path) -> None:
        self.shell = shell
        self.ours, theirs = pty.openpty()
        arguments, first = SHELLS[shell]
        environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
        self.process = subprocess.Popen(
            [program("setsid"), "--ctty", program(shell), *arguments],
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=home, env=environment,
        )  # fmt: skip
        os.close(theirs)
        os.mkfifo(home / "got")
        self.got = os.open(home / "got", os.O_RDWR)
        self.send(f"{first}; source {home}/script\n")
        self.shown_until(READY)

    def send(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def read(self) -> tuple[str, str]:
        """What the terminal shows next, and what gdr was given."""
        ready, _, _ = select.select([self.ours, self.got], [], [], 60)
        assert ready, "the shell is silent"
        shown, got = (os.read(fd, 65536) if fd in ready else b"" for fd in (self.ours, self.got))
        return shown.decode(errors="replace"), got.decode()

    def shown_until(self, *words: str) -> None:
        """Read what is shown until it has these words."""
        shown = ""
        while not all(word in shown for word in words):
            shown += self.read()[0]

    def completed(self, line: str) -> list[str]:
        """The words that gdr gets of a line after the Tab key and Enter."""
        self.send(f"{line}\t\n")
        got = ""
        while not got.endswith("END\n"):
            got += self.read()[1]
        return got.splitlines()[:-1]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.got)


@pytest.fixture(scope="module", params=SHELLS)
def terminal(request, tmp_path_factory):
    home = tmp_path_factory.mktemp(request.param)
    (home / ".ssh").mkdir()
    (home / ".ssh/config").write_text("Host node17 node18\nHost *.example.com\nHost $(touch${IFS}owned)\n")
    (home / "node.tar.gz").write_text("")
    (home / "my bundle.tar.gz").write_text("")
    (home / "bundles").mkdir()
    runs = home / ".local/state/gdrkit/fleet"
    runs.mkdir(parents=True)
    (runs / f"{RUN}.json").write_text("{}")
    script = subprocess.run(
        [os.sys.executable, "-m", "gdrkit", "completion", request.param], capture_output=True, text=True
    )
    (home / "script").write_text(script.stdout)
    shell = Terminal(request.param, home)
    yield shell
    shell.close()
    assert not (home / "owned").exists()


@pytest.mark.parametrize(
    "line, words",
    [
        ("gdr doct", ["doctor"]),
        ("gdr help mod", ["help", "modprobe"]),
        ("gdr flee", ["fleet"]),
        ("gdr fleet ben", ["fleet", "bench"]),
        ("gdr help fleet rep", ["help", "fleet", "report"]),
        ("gdr fleet bench --netw", ["fleet", "bench", "--network"]),
        ("gdr fleet bench node1 --rou", ["fleet", "bench", "node1", "--rounds"]),
        ("gdr fleet bench --reso", ["fleet", "bench", "--reso"]),
        ("gdr doctor --exit-s", ["doctor", "--exit-style"]),
        ("gdr doctor --consumer ver", ["doctor", "--consumer", "verbs"]),
        ("gdr doctor --exit-style na", ["doctor", "--exit-style", "nagios"]),
        ("gdr doctor nod", ["doctor", "node.tar.gz"]),
        ("gdr doctor my", ["doctor", "my bundle.tar.gz"]),
        ("gdr doctor node.tar.gz bund", ["doctor", "node.tar.gz", "bundles"]),
        ("gdr doctor ssh://node17", ["doctor", "ssh://node17"]),
        ("gdr doctor ssh://node18x", ["doctor", "ssh://node18x"]),
        ("gdr fleet doctor x node1", ["fleet", "doctor", "x", "node1"]),
        ("gdr codes peermem-st", ["codes", "peermem-stub"]),
        ("gdr config network-o", ["config", "network-operator"]),
        ("gdr config --form prometheusr", ["config", "--form", "prometheusrule"]),
        ("gdr config npd --path dm", ["config", "npd", "--path", "dmabuf"]),
        ("gdr completion fi", ["completion", "fish"]),
        ("gdr schema fleet-", ["schema", "fleet-bench"]),
        ("gdr man estim", ["man", "estimate"]),
        ("gdr man fleet-b", ["man", "fleet-bench"]),
        ("gdr fix --steps raise-m", ["fix", "--steps", "raise-memlock"]),
        ("gdr estimate --model gpt-oss-1", ["estimate", "--model", "gpt-oss-120b"]),
        ("gdr fleet doctor --run 2026", ["fleet", "doctor", "--run", RUN]),
        ("gdr fleet doctor node18", ["fleet", "doctor", "node18"]),
        ("gdr fleet doctor --hosts x --run las", ["fleet", "doctor", "--hosts", "x", "--run", "last"]),
        ("gdr collect --root bund", ["collect", "--root", "bundles"]),
        ("gdr bench loopb", ["bench", "loopback"]),
        ("gdr bench pair --host node1", ["bench", "pair", "--host", "node1"]),
        ("gdr bench pair --gpu nod", ["bench", "pair", "--gpu", "nod"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_the_tab_key_completes_a_value_and_leaves_what_it_does_not_know(terminal, line, words):
    got = terminal.completed(line)
    assert [word.rstrip("/") for word in got] == words  # zsh takes the slash of a folder away at Enter


def test_zsh_reads_the_summaries_as_the_help_has_them(capsys):
    assert main(["completion", "zsh"]) == 0
    rows = capsys.readouterr().out.partition("  commands=(")[2].partition("\n  )")[0]
    shell = [program("zsh"), "-fc", f"found=({rows}\n); print -rl -- $found"]
    got = subprocess.run(shell, capture_output=True, text=True, check=True).stdout.splitlines()
    assert got == [f"{name}:{line.replace(':', chr(92) + ':')}" for name, line in first_words().items()]


@pytest.mark.parametrize("line", ["gdr doctor --consumer=ver", "gdr doctor --consumer ver"])
def test_a_value_may_follow_an_equals_sign(terminal, line):
    assert terminal.completed(line)[-1].endswith("verbs")


@pytest.mark.parametrize(
    "line, words",
    [("gdr doctor ssh://node1", ["node17", "node18"]), ("gdr fleet doctor --run ", ["last", RUN])],
)
def test_several_values_are_listed(terminal, line, words):
    fish = f"complete -C '{line}'\n"  # its pager needs a screen
    terminal.send(fish if terminal.shell == "fish" else f"{line}\t\t")
    terminal.shown_until(*words)
    terminal.send("\x15")  # Ctrl-U: delete the line


def test_every_value_has_a_completion_or_is_named_as_free():
    offered = {
        (command, taken.dest): values_of(command, taken)
        for command in COMMANDS
        for taken in (*described(command).options, *described(command).arguments)
        if taken.value
    }
    assert len(offered) > 80 and sum(one != FREE for one in offered.values()) > 50
    assert set(OWN) <= set(offered)
    metavars = {
        taken.value
        for command in COMMANDS
        for taken in (*described(command).options, *described(command).arguments)
    }
    assert set(BY_METAVAR) <= metavars


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_no_word_that_a_shell_would_expand(shell, capsys):
    """The values are ours; what a machine adds is filtered by the commands of LISTS."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    words = [word for command in COMMANDS for taken in described(command).options if taken.value
             for word in values_of(command, taken).words]  # fmt: skip
    assert [word for word in words if not re.fullmatch(r"[\w.-]+", word)] == []
    assert all(command in script for command in COMMANDS)
    assert not any("'" in text for text in LISTS.values())
