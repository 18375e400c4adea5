"""Pages in Markdown for a terminal, rendered by rich: headings, lists, code and tables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gdrkit.agent.streams import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from markdown_it.token import Token

THEME = {
    "markdown.h1": "bold",
    "markdown.h2": "bold",
    "markdown.code": "cyan",
    "markdown.code_block": "cyan",
    "markdown.item.bullet": "none",
}


def page_text(markdown: str, *, colour: bool = False, width: int) -> str:
    """A page as lines of `width` columns, with ANSI colours if `colour`; else code keeps its backticks."""
    from io import StringIO

    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import Heading, Markdown
    from rich.theme import Theme

    class LeftHeading(Heading):
        """A heading at the left, without rich's frame."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            self.text.justify = "left"
            yield self.text

    class Page(Markdown):
        elements = {**Markdown.elements, "heading_open": LeftHeading}  # noqa: RUF012

    shown = Page(visible(markdown), code_theme="ansi_dark", hyperlinks=False)
    shown.parsed = list(_adapted(shown.parsed, colour))
    out = StringIO()
    console = Console(
        file=out, width=width, force_terminal=colour, color_system="standard" if colour else None,
        highlight=False, emoji=False, markup=False, theme=Theme(THEME),
    )  # fmt: skip
    console.print(shown)
    bulleted = re.sub("^( *)\N{BULLET}", r"\1-", out.getvalue(), flags=re.MULTILINE)
    return "".join(line.rstrip() + "\n" for line in bulleted.strip("\n").splitlines())


def _adapted(tokens: Iterable[Token], colour: bool) -> Iterable[Token]:
    """The tokens without links that show their own address, which rich would print twice, and with what
    looks like HTML, as in uverbs<n>, as text, which rich would leave out."""
    for token in tokens:
        if token.markup == "autolink":
            continue
        if token.type == "html_inline":
            token.type = "text"
        if token.type == "code_inline" and not colour:
            token.content = f"`{token.content}`"
        if token.children:
            token.children = list(_adapted(token.children, colour))
        yield token
