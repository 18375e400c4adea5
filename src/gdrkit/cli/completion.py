"""`gdr completion SHELL`: print a completion script, generated from the commands' parsers."""

from __future__ import annotations

from gdrkit.cli.arguments import Parser, write
from gdrkit.cli.exit import OK


def parser() -> Parser:
    parser = Parser(
        "completion",
        "Print a completion script for a shell.",
        "  gdr completion bash > ~/.local/share/bash-completion/completions/gdr\n"
        "  gdr completion zsh > ~/.zfunc/_gdr            ~/.zfunc is in fpath\n"
        "  gdr completion fish > ~/.config/fish/completions/gdr.fish\n",
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="shell to complete in")
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    write({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](_options()))
    return OK


def _options() -> dict[str, dict[str, str]]:
    """The long options of each command, with their help."""
    from importlib import import_module

    from gdrkit.cli import COMMANDS

    table = {}
    for command in COMMANDS:
        actions = import_module(f"gdrkit.cli.{command}").parser()._actions
        table[command] = {
            option: (action.help or "").replace("%%", "%")
            for action in actions
            for option in action.option_strings
            if option.startswith("--")
        }
    return table


def _bash(table: dict[str, dict[str, str]]) -> str:
    cases = "\n".join(f"    {name}) words='{' '.join(options)}' ;;" for name, options in table.items())
    return f"""_gdr() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} words=''
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W '{" ".join(table)} --help --version' -- "$current")
    return
  fi
  case ${{COMP_WORDS[1]}} in
{cases}
  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
}}
complete -o filenames -F _gdr gdr
"""


def _zsh(table: dict[str, dict[str, str]]) -> str:
    from gdrkit.cli import COMMANDS

    commands = "\n".join(f"    '{name}:{_plain(COMMANDS[name])}'" for name in table)
    cases = "\n".join(
        f"    {name}) _arguments {_zsh_options(options)} '*:file:_files' ;;"
        for name, options in table.items()
    )
    return f"""#compdef gdr
_gdr() {{
  local -a commands
  commands=(
{commands}
  )
  if (( CURRENT == 2 )); then
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
_gdr "$@"
"""


def _zsh_options(options: dict[str, str]) -> str:
    return " ".join(f"'{option}[{_plain(text)}]'" for option, text in options.items())


def _fish(table: dict[str, dict[str, str]]) -> str:
    from gdrkit.cli import COMMANDS

    lines = [
        f"complete -c gdr -n __fish_use_subcommand -f -a {name} -d '{_plain(COMMANDS[name])}'"
        for name in table
    ]
    lines += [
        f"complete -c gdr -n '__fish_seen_subcommand_from {name}' -l {option[2:]} -d '{_plain(text)}'"
        for name, options in table.items()
        for option, text in options.items()
    ]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Help text without characters that are special in a quoted word or in brackets."""
    return text.translate(str.maketrans("", "", "'\"[]`$\\")).replace(":", ",")
