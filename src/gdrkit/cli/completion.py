"""`gdr completion SHELL`: print a completion script, generated from the commands' parsers."""

from __future__ import annotations

from gdrkit.cli import FAMILIES, first_words, members
from gdrkit.cli.arguments import Parser, write
from gdrkit.cli.completed import FREE, LISTS, Values, values_of
from gdrkit.cli.described import Described, Taken
from gdrkit.cli.exit import OK


def parser() -> Parser:
    parser = Parser(
        "completion",
        "Print a completion script for a shell. It completes commands, options and their values.",
        "  gdr completion bash > ~/.local/share/bash-completion/completions/gdr\n"
        "  gdr completion zsh > ~/.zfunc/_gdr            ~/.zfunc is in fpath\n"
        "  gdr completion fish > ~/.config/fish/completions/gdr.fish\n",
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="shell to complete in")
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    from gdrkit.cli import COMMANDS
    from gdrkit.cli.described import described

    shells = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    write(shells[options.shell]([described(name) for name in COMMANDS]))
    return OK


# -- bash: a function that reads the line, since bash splits words at `=` and `:` -----------------


_BASH = """# Completion of gdr in bash.
_gdr_words() {{
  local word prefix=''
  [[ $value == *:* ]] && prefix=${{value%:*}}:
  while IFS= read -r word; do COMPREPLY+=("${{word#"$prefix"}}"); done < <(compgen -W "$1" -- "$value")
}}
_gdr() {{
  local -a typed
  local line=${{COMP_LINE:0:COMP_POINT}} command more option='' value word number=1
  read -ra typed <<< "$line"
  [[ $line == *[[:space:]] ]] && typed+=('')
  value=${{typed[-1]}} command=${{typed[1]-}} more='help --help --version'
  COMPREPLY=()
  if [[ $command == help && ${{#typed[@]}} -gt 2 ]]; then
    typed=("${{typed[0]}}" "${{typed[@]:2}}") command=${{typed[1]}} more=''
  fi
  if [ "${{#typed[@]}}" -le 2 ]; then
    _gdr_words "{names} $more"
    compopt +o default
    return
  fi
  case $command in
{families}
  esac
  if [ -z "$more" ]; then
    compopt +o default
    return
  fi
  for word in "${{typed[@]:2:${{#typed[@]}}-3}}"; do
    case "$command $option" in
    {valued}) option='' ; continue ;;
    esac
    if [[ $word == -* ]]; then option=$word; else option='' ; number=$((number + 1)); fi
  done
  if [[ $value == --*=* ]]; then
    option=${{value%%=*}} value=${{value#*=}}
  elif [[ $value == -* ]]; then
    case $command in
{options}
    esac
    compopt +o default
    return
  else
    case "$command $option" in
    {valued}) ;;
    *) option=$number ;;
    esac
  fi
  case "$command $option" in
{values}
    *) compopt +o default ;;
  esac
}}
complete -o default -F _gdr gdr
"""
_BASH_FAMILY = """\
  {family})
    if [ "${{#typed[@]}}" -eq 3 ]; then
      _gdr_words '{members}'
      compopt +o default
      return
    fi
    command="$command ${{typed[2]}}"
    typed=("${{typed[0]}}" "${{typed[@]:2}}") ;;"""


def _bash(commands: list[Described]) -> str:
    """The _bash. Files are left to bash, which knows quotes and `~`: complete -o default."""
    names = " ".join(first_words())
    options, values, valued = [], [], []
    for one in commands:
        words = " ".join(name for taken in one.options for name in taken.names if name.startswith("--"))
        options.append(f"    '{one.name}') _gdr_words '{words}' ;;")
        for taken in one.options:
            if taken.value:
                keys = "|".join(f"'{one.name} {name}'" for name in taken.names)
                values.append(f"    {keys}) {_bash_offer(values_of(one.name, taken))} ;;")
                if not taken.optional:
                    valued += [f"'{one.name} {name}'" for name in taken.names]
        for number, taken in enumerate(one.arguments, 1):
            last = number == len(one.arguments) and taken.many
            values.append(
                f"    '{one.name} '{'*' if last else number}) {_bash_offer(values_of(one.name, taken))} ;;"
            )
    families = [_BASH_FAMILY.format(family=one, members=" ".join(members(one))) for one in FAMILIES]
    return _BASH.format(
        names=names,
        families="\n".join(families),
        options="\n".join(options),
        values="\n".join(values),
        valued="|".join(valued),
    )


def _bash_offer(values: Values) -> str:
    """The commands that offer these values."""
    parts = []
    if values.words:
        parts.append(f"_gdr_words '{' '.join(values.words)}'")
    if values.list:
        parts.append(f"_gdr_words \"$(sh -c '{LISTS[values.list]}')\"")
    if values.list == "target":
        parts[-1] = f"[[ $value == s* ]] && {parts[-1]}"
    if values.folders:
        parts.append("compopt -o dirnames +o default")
    elif not values.files or values == FREE:
        parts.append("compopt +o default")
    return "; ".join(parts) or ":"


# -- zsh --------------------------------------------------------------------------------------------


_ZSH = """#compdef gdr
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
  local helped=''
  if [[ $words[2] == help ]] && (( CURRENT > 2 )); then
    helped=yes
    shift words
    (( CURRENT-- ))
  fi
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{families}
  esac
  [[ -z $helped ]] || return
  case $command in
{cases}
  esac
}}
if [[ $funcstack[1] == _gdr ]]; then _gdr "$@"; else compdef _gdr gdr; fi
"""
_ZSH_FAMILY = """\
  {family})
    if (( CURRENT == 2 )); then
      commands=(
{commands}
      )
      _describe command commands
      return
    fi
    command="$command $words[2]"
    shift words
    (( CURRENT-- )) ;;"""


def _zsh(commands: list[Described]) -> str:
    """The _zsh: a call of `_arguments` for each command."""
    lists = "\n".join(
        f"_gdr_{name}() {{\n  local -a found=(${{(f)\"$(sh -c '{text}')\"}})\n  compadd -a found\n}}"
        for name, text in LISTS.items()
    )
    cases = "\n".join(f"    '{one.name}') _arguments {_zsh_specs(one)} ;;" for one in commands)
    families = [_ZSH_FAMILY.format(family=one, commands=_zsh_rows(members(one))) for one in FAMILIES]
    return _ZSH.format(
        lists=lists, commands=_zsh_rows(first_words()), families="\n".join(families), cases=cases
    )


def _zsh_rows(commands: dict[str, str]) -> str:
    return "\n".join(f"    '{name}:{_zsh_plain(line)}'" for name, line in commands.items())


def _zsh_specs(command: Described) -> str:
    specs = []
    for taken in command.options:
        action = _zsh_action(values_of(command.name, taken), taken) if taken.value else ""
        for name in taken.names:
            sign = "=" if action and name.startswith("--") else "+" if action else ""
            others = " ".join(taken.names) if action and taken.names else name
            specs.append(f"'({others}){name}{sign}[{_zsh_plain(taken.help)}]{action}'")
    for number, taken in enumerate(command.arguments, 1):
        place = "*" if taken.many else number
        specs.append(f"'{place}{_zsh_action(values_of(command.name, taken), taken)}'")
    return " ".join(specs)


def _zsh_action(values: Values, taken: Taken) -> str:
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
    return f"{colon}{_zsh_plain(taken.value)}:{offered[0] if offered else ' '}"


def _zsh_plain(text: str) -> str:
    """Help text within single quotes, without characters that are special in brackets or in a spec."""
    kept = text.translate(str.maketrans("", "", '"[]`$\\'))
    return kept.replace(":", "\\:").replace("'", "'\\''")


# -- fish -------------------------------------------------------------------------------------------


_FISH = """function __gdr_first
  test (count (commandline -opc)) -eq 1
end
function __gdr_is
  set -l words (commandline -opc)
  set -l last (math 1 + (count (string split ' ' $argv[1])))
  test (count $words) -ge $last; and test "$words[2..$last]" = $argv[1]
end
function __gdr_at
  __gdr_is $argv[1]; or return 1
  set -l number 1
  set -l option ''
  set -l begin (math 2 + (count (string split ' ' $argv[1])))
  for word in (commandline -opc)[$begin..]
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


def _fish(commands: list[Described]) -> str:
    """The _fish: a line for each command, option and argument."""
    valued = [
        f"'{one.name} {name}'"
        for one in commands
        for taken in one.options
        if taken.value and not taken.optional
        for name in taken.names
    ]
    lines = [
        *(f"function __gdr_{name}\n  sh -c '{_fish_quoted(text)}'\nend" for name, text in LISTS.items()),
        _FISH.format(valued=" ".join(valued)),
        "complete -c gdr -f",
    ]
    for name, line in first_words().items():
        lines.append(f"complete -c gdr -n __gdr_first -a {name} -d '{_fish_quoted(line)}'")
        lines.append(f"complete -c gdr -n '__gdr_at help 1' -a {name}")
    for family in FAMILIES:
        for name, line in members(family).items():
            lines.append(f"complete -c gdr -n '__gdr_at {family} 1' -a {name} -d '{_fish_quoted(line)}'")
            lines.append(f"complete -c gdr -n '__gdr_at \"help {family}\" 1' -a {name}")
    for one in commands:
        lines += [_fish_option(one.name, taken) for taken in one.options]
        for number, taken in enumerate(one.arguments, 1):
            where = f'__gdr_at "{one.name}" {number}{" more" if taken.many else ""}'
            lines.append(f"complete -c gdr -n '{where}'{_fish_offer(values_of(one.name, taken), taken)}")
    return "\n".join(lines) + "\n"


def _fish_option(command: str, taken: Taken) -> str:
    names = " ".join(f"-{'l' if name[1] == '-' else 's'} {name.lstrip('-')}" for name in taken.names)
    offer = _fish_offer(values_of(command, taken), taken) if taken.value else ""
    help_text = _fish_quoted(taken.help)
    return f"complete -c gdr -n '__gdr_is \"{command}\"' {names}{offer} -d '{help_text}'"


def _fish_offer(values: Values, taken: Taken) -> str:
    """The flags that offer these values; -r, for an option, says that a value follows."""
    words = " ".join(values.words)
    if values.list:
        words = f"{words} (__gdr_{values.list})".lstrip()
    if values.folders:
        words = "(__fish_complete_directories)"
    follows = " -r" if taken.names and not taken.optional else ""
    return f"{follows}{' -F' if values.files else ' -f'}" + (f" -a '{words}'" if words else "")


def _fish_quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
