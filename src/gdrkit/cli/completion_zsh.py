"""The completion script for zsh: its own `_arguments` reads the line."""

from __future__ import annotations

from gdrkit.cli.completed import LISTS, Values, values_of
from gdrkit.cli.described import Described, Taken

_SCRIPT = """#compdef gdr
# Completion of gdr in zsh.
{lists}
_gdr_or_files() {{
  _alternative "values:value:$1" 'files:file:_files'
}}
_gdr() {{
  local -a commands
  commands=(
{commands}
  )
  if (( CURRENT == 2 )) || [[ $words[2] == help ]]; then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{cases}
  esac
}}
if [[ $funcstack[1] == _gdr ]]; then _gdr "$@"; else compdef _gdr gdr; fi
"""


def script(commands: list[Described]) -> str:
    """The script: a call of `_arguments` for each command."""
    lists = "\n".join(
        f"_gdr_{name}() {{\n  local -a found=(${{(f)\"$(sh -c '{text}')\"}})\n  compadd -a found\n}}"
        for name, text in LISTS.items()
    )
    rows = "\n".join(f"    '{one.name}:{_plain(one.summary)}'" for one in commands)
    cases = "\n".join(f"    {one.name}) _arguments {_specs(one)} ;;" for one in commands)
    return _SCRIPT.format(lists=lists, commands=rows, cases=cases)


def _specs(command: Described) -> str:
    specs = []
    for taken in command.options:
        action = _action(values_of(command.name, taken), taken) if taken.value else ""
        for name in taken.names:
            sign = "=" if action and name.startswith("--") else "+" if action else ""
            others = " ".join(taken.names) if action and taken.names else name
            specs.append(f"'({others}){name}{sign}[{_plain(taken.help)}]{action}'")
    for number, taken in enumerate(command.arguments, 1):
        place = "*" if taken.many else number
        specs.append(f"'{place}{_action(values_of(command.name, taken), taken)}'")
    return " ".join(specs)


def _action(values: Values, taken: Taken) -> str:
    """The message and the action of a value, as _arguments takes them."""
    offered = []
    if values.words:
        offered.append(f"({' '.join(values.words)})")
    if values.list:
        offered.append(f"_gdr_{values.list}")
    if values.folders:
        offered.append("_files -/")
    if values.files:
        offered.append("_files")
    if len(offered) > 1:
        offered = [f' _gdr_or_files "{offered[0]}"']
    colon = "::" if taken.optional and taken.names else ":"
    return f"{colon}{_plain(taken.value)}:{offered[0] if offered else ' '}"


def _plain(text: str) -> str:
    """Help text within single quotes, without characters that are special in brackets or in a spec."""
    kept = text.translate(str.maketrans("", "", '"[]`$\\'))
    return kept.replace(":", "\\:").replace("'", "'\\''")
