"""Variables of programs that a line sets: in a shell, a script, an env file or a launcher's options."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from gdrkit.formats.regex import regex

LINE_CHARACTERS = 8192
"""How much of a line is parsed: a command with its variables is longer than a line of a log."""

NAME = r"(?:(?:OFI_)?NCCL|UCX|NVSHMEM|FI)_[A-Z0-9_]{1,60}"
"""The variables that the switches of programs name."""

_FILLED_IN = regex(r"\$[\w({]|`|\{\{")


def is_filled_in(value: str) -> bool:
    """Whether a shell, Kubernetes, envsubst or a template puts something into a value before a program reads
    it: `$NAME`, `${NAME}`, `$(NAME)`, a command, `{{ .Values.name }}`. What it will be is not known here."""
    return _FILLED_IN.search(value) is not None


S = TypeVar("S", bound=tuple[Any, ...])


def literal(settings: Iterable[S]) -> Iterator[S]:
    """The settings, each of line, name, value and more, whose values are not filled in later."""
    return (one for one in settings if not is_filled_in(one[2]))


_VALUE = r"\"[^\"]*\"|'[^']*'|[^\s;&\"']*"
_COMMAND = (
    r"(?:(?:timeout|numactl|nohup|sudo|time) (?:-?\S+ )?)?"
    r"(?:\.{0,2}/\S|[\"']?\$\{?\w|(?:mpirun|mpiexec|srun|torchrun|python\d?|deepspeed|accelerate|ray|vllm|bash|\w+_perf)\b)"
)
"""What starts a job: launchers, frameworks, NCCL's own tests, a shell, and any program by its path."""


_QUOTED = r"\"[^\"]{0,400}\"|'[^']{0,400}'"
_DECLARED = rf"(?P<value>{_QUOTED}|[^\s,;}}#\"'][^\s;}}#\"']{{0,400}}?)"
_NAME = rf"[\"']?(?P<name>{NAME})[\"']?"
_FORMS = {
    "dockerfile": rf"(?i:ENV)\s+{_NAME}\s+{_DECLARED}",  # the old form, which sets one variable
    "mapping": rf"(?:-\s+)?{_NAME}\s*[:=]\s*{_DECLARED},?(?:\s+(?:#.*|\\))?",  # YAML, JSON, compose, env
    "flow": rf"[-\s]*\{{\s*[\"']?name[\"']?:\s*{_NAME},\s*[\"']?value[\"']?:\s*{_DECLARED}\s*\}},?",
    "python": rf"os\.environ(?:\[|\.setdefault\()\s*{_NAME}(?:\]\s*=|,)\s*(?:str\()?{_DECLARED}\)*",
}
"""The forms of a line that sets one variable, and has nothing else."""
OPTIONS = ("-x ", "-e ", "--env", "-genv ")
"""Options of launchers and container runtimes that set a variable."""


def declared(line: str) -> tuple[tuple[str, str], ...]:
    """The variables that a line of a Dockerfile, a manifest or a script declares, and their values."""
    line = line[:LINE_CHARACTERS]
    for form in _FORMS:
        found = _form(form).fullmatch(line)
        if found is not None:
            return ((found["name"], found["value"].strip("\"'")),)
    return tuple(_words(line)) if _declares_words().match(line) else ()


@functools.cache
def _declares_words() -> re.Pattern[str]:
    return re.compile(r"(?i:ENV)\s+\w+=|(?:[$#+] )?(?:kubectl|oc) (?:-n \S+ )?set env ")


def _words(line: str) -> Iterator[tuple[str, str]]:
    """The variables among the words of a line; a quoted word is one."""
    for found in _word().finditer(line):
        if found["name"]:
            yield found["name"], found["value"].strip("\"'")


@functools.cache
def _word() -> re.Pattern[str]:
    return re.compile(rf"(?<=\s)(?:(?P<name>{NAME})|\w+)=(?P<value>{_VALUE})(?=[\s;&]|$)")


@functools.cache
def _form(name: str) -> re.Pattern[str]:
    return re.compile(_FORMS[name])


def commands_of(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a Dockerfile, a script or a manifest, each with its number: those that a backslash joins
    are one, without the comments between them, as docs.docker.com, Dockerfile reference, describes. An empty
    line is none."""
    first, joined = 0, ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("#") if first else not line:
            continue
        first, joined = first or number, f"{joined} {line.strip()}" if joined else line
        if joined.endswith("\\") and len(joined) < LINE_CHARACTERS:
            joined = joined[:-1].rstrip()
            continue
        yield first, joined
        first, joined = 0, ""
    if first:
        yield first, joined


def settings_in(line: str) -> tuple[tuple[str, str], ...]:
    """Every variable that a line sets, in any form. One that begins with an option continues a command."""
    text = line.strip()
    if (found := _printed().fullmatch(text[:LINE_CHARACTERS])) is not None:
        return ((found["name"], found["value"]),)
    return declared(text) or tuple(assigned(f" {text}" if text.startswith(OPTIONS) else text))


@functools.cache
def _printed() -> re.Pattern[str]:
    """A line of a Slurm TaskProlog, which sets for the task what it prints. Source: slurm.conf(5)."""
    value = r"(?P<value>[^\"']{0,400})"
    return re.compile(rf"(?:echo|printf '%s\\n') (?P<mark>[\"'])export (?P<name>{NAME})={value}(?P=mark)")


def assigned(line: str) -> Iterator[tuple[str, str]]:
    """The variables that a line sets, with their values: `export`, `mpirun -x`, `docker -e`, output of env.

    Sentences that mention an assignment set nothing."""
    for part in _joined().split(line[:LINE_CHARACTERS]):
        whole = _listed().match(part)
        if whole is not None:
            yield whole["name"], whole["value"].strip("\"'")
            continue
        if _lists().match(part):
            yield from _words(part)
            continue
        for found in _passed().finditer(_one_list().sub(_separate, part)):
            value = found["next"] if found["value"] is None else found["value"]
            yield found["name"], value.strip("\"'")


@functools.cache
def _joined() -> re.Pattern[str]:
    """Between commands of one line that set a variable each."""
    return re.compile(rf";\s*(?=(?:export |setenv )?{NAME}[= ])")


@functools.cache
def _listed() -> re.Pattern[str]:
    return re.compile(
        rf"^\s*(?:\+ )?(?:(?:export |declare -x |set )?(?=\w+=)|setenv )"
        rf"(?P<name>{NAME})[= ](?P<value>{_VALUE})\s*(?:\s#.*)?$"
    )


@functools.cache
def _lists() -> re.Pattern[str]:
    """How lines begin that set each variable that follows."""
    return re.compile(
        rf"^\s*(?:\+ |RUN )?export (?:\w+=(?:{_VALUE})(?: +|$|(?=[;&])))+(?:[#;&].*)?$"
        r"|^\s*(?:[$#+] )?(?:(?:exec|nohup|sudo|timeout(?: -\S+)*(?: \d+\w?)+|(?:kubectl|ssh) .{1,200}) )*"
        r"env (?:-\S+ )*\w+=(?=\S* .)"
    )


@functools.cache
def _one_list() -> re.Pattern[str]:
    """A list of variables in one word. Sources: sbatch(1), --export; qsub(1), -v; apptainer exec --env."""
    return re.compile(
        r"(?:(?<=--export)[= ]|(?<=^#PBS -v) |(?<=^qsub -v) |(?<=^#SBATCH --export)[= ]"
        r"|^(?=apptainer |singularity ).{0,400}? --env[= ])(?P<list>(?:\"[^\"]*\"|'[^']*'|[^\s\"'])+)"
    )


def _separate(found: re.Match[str]) -> str:
    """The variables of a list, each as an option of its own; commas in their values stay."""
    listed = found["list"].replace('"', "")
    each = (f" -x {part}" for part in re.split(rf",(?={NAME}=)", listed) if re.match(rf"{NAME}=", part))
    return "".join(each)


@functools.cache
def _passed() -> re.Pattern[str]:
    # mpirun -x, docker -e and --env, mpiexec -env and -genv (with a blank), export of several, and
    # assignments before a command.
    return re.compile(
        rf"(?:\s(?:(?:-x|-e)[ =]?|(?:--env|export)[ =])(?={NAME}=)|\s-g?env (?={NAME} )"
        rf"|^(?:[$#+] )?(?:export |env )?"
        rf"(?=(?:\w+=\S* +)+{_COMMAND})|(?<=\S) (?={NAME}=)(?=(?:\w+=\S* +)*{_COMMAND}))"
        rf"(?P<name>{NAME})(?:=(?P<value>{_VALUE})| (?P<next>{_VALUE}))(?=[\s;,&]|$)"
    )
