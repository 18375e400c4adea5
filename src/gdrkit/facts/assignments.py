"""Variables of programs that a line sets: in a shell, a script, an env file or a launcher's options."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

LINE_CHARACTERS = 8192
"""How much of a line is parsed: a command with its variables is longer than a line of a log."""

NAME = r"(?:(?:OFI_)?NCCL|UCX|NVSHMEM|FI)_[A-Z0-9_]{1,60}"
"""The variables that the switches of programs name."""

_VALUE = r"\"[^\"]*\"|'[^']*'|[^\s;&\"']*"
_COMMAND = (
    r"(?:(?:timeout|numactl|nohup|sudo|time) (?:-?\S+ )?)?(?:\S*/)?"
    r"(?:mpirun|mpiexec|srun|torchrun|python\d?|deepspeed|accelerate|ray|vllm|\w+_perf)\b"
)
"""Programs that start jobs: launchers, frameworks and NCCL's own tests."""


_QUOTED = r"\"[^\"]{0,400}\"|'[^']{0,400}'"
_DECLARED = rf"(?P<value>{_QUOTED}|[^\s,;}}#\"'][^\s;}}#\"']{{0,400}}?)"
_NAME = rf"[\"']?(?P<name>{NAME})[\"']?"
_FORMS = {
    "dockerfile": rf"ENV\s+{_NAME}[= ]\s*{_DECLARED}(?:\s.*)?",
    "mapping": rf"(?:-\s+)?{_NAME}\s*[:=]\s*{_DECLARED},?(?:\s+(?:#.*|\\))?",  # YAML, JSON, compose, env
    "flow": rf"[-\s]*\{{\s*[\"']?name[\"']?:\s*{_NAME},\s*[\"']?value[\"']?:\s*{_DECLARED}\s*\}},?",
    "python": rf"os\.environ\[{_NAME}\]\s*=\s*(?:str\()?{_DECLARED}\)?",
}
"""The forms of a line that sets one variable, and has nothing else."""
OPTIONS = ("-x ", "-e ", "--env", "-genv ")
"""Options of launchers and container runtimes that set a variable."""


def declared(line: str) -> tuple[str, str] | None:
    """The variable that a line of a Dockerfile, a manifest or a script declares, and its value."""
    for form in _FORMS:
        found = _form(form).fullmatch(line)
        if found is not None:
            return found["name"], found["value"].strip("\"'")
    return None


@functools.cache
def _form(name: str) -> re.Pattern[str]:
    return re.compile(_FORMS[name])


def settings_in(line: str) -> tuple[tuple[str, str], ...]:
    """Every variable that a line sets, in any form. One that begins with an option continues a command."""
    text = line.strip()
    if (found := declared(text)) is not None:
        return (found,)
    return tuple(assigned(f" {text}" if text.startswith(OPTIONS) else text))


def assigned(line: str) -> Iterator[tuple[str, str]]:
    """The variables that a line sets, with their values: `export`, `mpirun -x`, `docker -e`, output of env.

    Sentences that mention an assignment set nothing."""
    line = line[:LINE_CHARACTERS]
    whole = _listed().match(line)
    if whole is not None:
        yield whole["name"], whole["value"].strip("\"'")
        return
    for found in (_exported() if _exports().match(line) else _passed()).finditer(line):
        yield found["name"], found["value"].strip("\"'")


@functools.cache
def _listed() -> re.Pattern[str]:
    return re.compile(
        rf"^\s*(?:\+ )?(?:(?:export |declare -x |set )?(?=\w+=)|setenv )"
        rf"(?P<name>{NAME})[= ](?P<value>{_VALUE})\s*$"
    )


@functools.cache
def _exports() -> re.Pattern[str]:
    return re.compile(rf"^\s*(?:\+ )?export (?:\w+=(?:{_VALUE})(?: +|$))+$")


@functools.cache
def _exported() -> re.Pattern[str]:
    return re.compile(rf"(?<=\s)(?P<name>{NAME})=(?P<value>{_VALUE})(?=\s|$)")


@functools.cache
def _passed() -> re.Pattern[str]:
    # mpirun -x, docker -e and --env, mpiexec -genv (with a blank), srun --export=ALL,NAME=VALUE, export of
    # several, and assignments before a command.
    return re.compile(
        rf"(?:\s(?:-x|-e|--env|-genv|export)[ =]|--export=\S*?|^(?:[$#+] )?(?:export |env )?"
        rf"(?=(?:\w+=\S* +)+{_COMMAND})|(?<=\S) (?={NAME}=)(?=(?:\w+=\S* +)*{_COMMAND}))"
        rf"(?P<name>{NAME})[= ](?P<value>{_VALUE})(?=[\s;,&]|$)"
    )
