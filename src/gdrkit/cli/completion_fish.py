"""The completion script for fish."""

from __future__ import annotations

from gdrkit.cli.completed import LISTS, Values, values_of
from gdrkit.cli.described import Described, Taken

_FUNCTIONS = """function __gdr_first
  test (count (commandline -opc)) -eq 1
end
function __gdr_is
  set -l words (commandline -opc)
  test (count $words) -ge 2; and test "$words[2]" = $argv[1]
end
function __gdr_at
  __gdr_is $argv[1]; or return 1
  set -l number 1
  set -l option ''
  for word in (commandline -opc)[3..]
    if contains -- "$argv[1] $option" {valued}
      set option ''
      continue
    end
    if string match -q -- '-*' $word
      set option $word
    else
      set option ''
      set number (math $number + 1)
    end
  end
  not contains -- "$argv[1] $option" {valued}
  and test $number -eq $argv[2]; or test $number -gt $argv[2] -a "$argv[3]" = more
end"""


def script(commands: list[Described]) -> str:
    """The script: a line for each command, option and argument."""
    valued = [
        f"'{one.name} {name}'"
        for one in commands
        for taken in one.options
        if taken.value and not taken.optional
        for name in taken.names
    ]
    lines = [
        *(f"function __gdr_{name}\n  sh -c '{_quoted(text)}'\nend" for name, text in LISTS.items()),
        _FUNCTIONS.format(valued=" ".join(valued)),
        "complete -c gdr -f",
    ]
    for one in commands:
        lines.append(f"complete -c gdr -n __gdr_first -a {one.name} -d '{_quoted(one.summary)}'")
        lines.append(f"complete -c gdr -n '__gdr_at help 1' -a {one.name}")
        lines += [_option(one.name, taken) for taken in one.options]
        for number, taken in enumerate(one.arguments, 1):
            where = f"__gdr_at {one.name} {number}{' more' if taken.many else ''}"
            lines.append(f"complete -c gdr -n '{where}'{_offer(values_of(one.name, taken), taken)}")
    return "\n".join(lines) + "\n"


def _option(command: str, taken: Taken) -> str:
    names = " ".join(f"-{'l' if name[1] == '-' else 's'} {name.lstrip('-')}" for name in taken.names)
    offer = _offer(values_of(command, taken), taken) if taken.value else ""
    return f"complete -c gdr -n '__gdr_is {command}' {names}{offer} -d '{_quoted(taken.help)}'"


def _offer(values: Values, taken: Taken) -> str:
    """The flags that offer these values; -r, for an option, says that a value follows."""
    words = " ".join(values.words)
    if values.list:
        words = f"{words} (__gdr_{values.list})".lstrip()
    if values.folders:
        words = "(__fish_complete_directories)"
    follows = " -r" if taken.names and not taken.optional else ""
    return f"{follows}{' -F' if values.files else ' -f'}" + (f" -a '{words}'" if words else "")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
