"""`gdr completion SHELL`: print a completion script, generated from the commands' parsers."""

from __future__ import annotations

from gdrkit.cli.arguments import Parser, write
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
    from gdrkit.cli import COMMANDS, completion_bash, completion_fish, completion_zsh
    from gdrkit.cli.described import described

    shells = {"bash": completion_bash.script, "zsh": completion_zsh.script, "fish": completion_fish.script}
    write(shells[options.shell]([described(name) for name in COMMANDS]))
    return OK
