"""Environment variables, each with its reason, as a shell, a container or Slurm reads them."""

from __future__ import annotations

import shlex

from msgspec import Struct

from gdrkit.repair.config.output import OutputLine
from gdrkit.repair.config.yaml_writer import Field, Items, lines


class EnvSetting(Struct, frozen=True):
    """A variable, and why it is set or, without a value, why it is not."""

    name: str
    value: str
    why: str


def env_lines(found: tuple[EnvSetting, ...], form: str) -> tuple[OutputLine, ...]:
    """The variables in a form: shell, conf (`NAME=value`), kubernetes, slurm."""
    return _kubernetes(found) if form == "kubernetes" else _plain(found, form)


def _plain(found: tuple[EnvSetting, ...], form: str) -> tuple[OutputLine, ...]:
    out = []
    for setting in found:
        if not setting.value:
            out.append(OutputLine(f"# {setting.name} is not set: {setting.why}"))
        elif form == "slurm":
            line = (
                f"export {setting.name}={setting.value}"  # slurmd takes the value as it is: task/task_prolog
            )
            out.append(OutputLine(f"printf '%s\\n' {shlex.quote(line)}", setting.why))
        elif form == "shell":
            out.append(OutputLine(f"export {setting.name}={_quoted(setting.value)}", setting.why))
        else:
            out.append(OutputLine(f"{setting.name}={setting.value}", setting.why))
    return tuple(out)


def _quoted(value: str) -> str:
    """Always in quotes, so that a value that is edited later stays one word."""
    quoted = shlex.quote(value)
    return quoted if quoted != value else f"'{value}'"


def _kubernetes(found: tuple[EnvSetting, ...]) -> tuple[OutputLine, ...]:
    """Kubernetes replaces $(NAME), and $$ by $: third_party/forked/golang/expansion/expand.go."""
    unset = tuple(OutputLine(f"# {s.name} is not set: {s.why}") for s in found if not s.value)
    values = tuple(
        (Field("name", setting.name, setting.why), Field("value", setting.value.replace("$", "$$")))
        for setting in found
        if setting.value
    )
    if not values:
        return (*unset, OutputLine("env: []"))
    return (*unset, *lines((Field("env", Items(values)),)))
