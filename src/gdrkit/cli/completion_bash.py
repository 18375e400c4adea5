"""The completion script for bash: a function that reads the line, since bash splits words at `=` and `:`."""

from __future__ import annotations

from gdrkit.cli.completed import FREE, LISTS, Values, values_of
from gdrkit.cli.described import Described

_SCRIPT = """# Completion of gdr in bash.
_gdr_words() {{
  local word prefix=''
  [[ $value == *:* ]] && prefix=${{value%:*}}:
  while IFS= read -r word; do COMPREPLY+=("${{word#"$prefix"}}"); done < <(compgen -W "$1" -- "$value")
}}
_gdr() {{
  local -a typed
  local line=${{COMP_LINE:0:COMP_POINT}} command option='' value word number=1
  read -ra typed <<< "$line"
  [[ $line == *[[:space:]] ]] && typed+=('')
  value=${{typed[-1]}} command=${{typed[1]-}}
  COMPREPLY=()
  if [ "${{#typed[@]}}" -le 2 ]; then
    _gdr_words '{names} help --help --version'
    compopt +o default
    return
  fi
  if [[ $command == help ]]; then
    _gdr_words '{names}'
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


def script(commands: list[Described]) -> str:
    """The script. Files are left to bash, which knows quotes and `~`: complete -o default."""
    names = " ".join(one.name for one in commands)
    options, values, valued = [], [], []
    for one in commands:
        words = " ".join(name for taken in one.options for name in taken.names if name.startswith("--"))
        options.append(f"    {one.name}) _gdr_words '{words}' ;;")
        for taken in one.options:
            if taken.value:
                keys = "|".join(f"'{one.name} {name}'" for name in taken.names)
                values.append(f"    {keys}) {_offer(values_of(one.name, taken))} ;;")
                if not taken.optional:
                    valued += [f"'{one.name} {name}'" for name in taken.names]
        for number, taken in enumerate(one.arguments, 1):
            last = number == len(one.arguments) and taken.many
            values.append(
                f"    '{one.name} '{'*' if last else number}) {_offer(values_of(one.name, taken))} ;;"
            )
    return _SCRIPT.format(
        names=names, options="\n".join(options), values="\n".join(values), valued="|".join(valued)
    )


def _offer(values: Values) -> str:
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
