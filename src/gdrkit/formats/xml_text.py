"""The part of XML that topology files use.

Not supported: document type definitions, CDATA, and entities other than the five predefined ones (XML 1.0,
section 4.6) and character references. No supported writer uses them, and they can be used for attacks.
Why not a library: expat refuses files that must be read here (bytes that are not UTF-8, an attribute given
twice, `<` in a value), and the limits and the refusal of entities would still have to be added.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex

MAX_BYTES = 32 << 20
"""Far more than in practice: lstopo writes 1 MiB for 192 cores, NCCL dumps 12 KiB for 8 GPUs."""
MAX_DEPTH = 96
"""PCI has 256 buses, so 128 switches could be nested; the deepest known file has 10 levels."""
MAX_NODES = 200_000
MAX_VALUE = 1 << 14
"""Characters of an attribute: the longest are hwloc's sets, 11 for each 32 of at most 16,384 processors."""

_TOKEN = regex(
    r"<!--.*?-->|<\?.*?\?>|<!DOCTYPE[^\[\]<>]*>"
    r"|<(?P<close>/?)(?P<name>[A-Za-z_][\w.:-]*+)(?P<attributes>(?:[^<>\"']|\"[^\"]*\"|'[^']*')*?)(?P<empty>/?)>",
    re.DOTALL,
)
"""A name gives nothing back: what follows each part of one would be read as attributes, to a missing end."""
_BREAKS = dict.fromkeys(map(ord, "\t\n\r"), " ")
"""Attributes have one line: XML 1.0, 3.3.3. Here also where a reference stands for a break, so that no name
becomes a line of a setting or of a report."""
_PREDEFINED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


class XmlNode(Struct, frozen=True):
    """One element. Text between its children is joined, without surrounding blanks."""

    name: str
    attributes: dict[str, str] = {}
    children: tuple[XmlNode, ...] = ()
    text: str = ""

    def get(self, attribute: str, default: str = "") -> str:
        return self.attributes.get(attribute, default)

    def all(self, name: str) -> tuple[XmlNode, ...]:
        """The children with this name."""
        return tuple(child for child in self.children if child.name == name)

    def walk(self) -> Iterator[XmlNode]:
        """This element and all below it, in document order."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))


class _Open:
    """An element that is still open."""

    __slots__ = ("attributes", "children", "name", "text")

    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name, self.attributes = name, attributes
        self.children: list[XmlNode] = []
        self.text: list[str] = []

    def close(self) -> XmlNode:
        return XmlNode(self.name, self.attributes, tuple(self.children), " ".join(self.text))


def parse(content: bytes, *, max_nodes: int = MAX_NODES) -> XmlNode:
    """The outermost element. Raises FormatError for anything other than one complete element."""
    if len(content) > MAX_BYTES:
        raise FormatError(f"{len(content)} bytes of XML; the limit is {MAX_BYTES}")
    text = content.decode("utf-8", "replace").removeprefix("\ufeff")
    top = _Open("", {})
    stack = [top]
    at = nodes = 0
    while True:
        start = text.find("<", at)
        if between := text[at : start if start >= 0 else len(text)].strip():
            stack[-1].text.append(_characters(between))
        if start < 0:
            break
        token = _TOKEN.match(text, start)
        if token is None:
            raise FormatError(f"cut or unsupported XML at {text[start : start + 30]!r}")
        at = token.end()
        if token["name"] is None:
            continue
        if token["close"]:
            if len(stack) == 1 or stack[-1].name != token["name"]:
                raise FormatError(f"</{token['name']}> without a start")
        else:
            nodes += 1
            if nodes > max_nodes or len(stack) > MAX_DEPTH:
                raise FormatError(f"more than {max_nodes} elements or {MAX_DEPTH} levels")
            stack.append(_Open(token["name"], _attributes(token["attributes"])))
        if token["close"] or token["empty"]:
            node = stack.pop().close()
            stack[-1].children.append(node)
    if len(stack) > 1:
        raise FormatError(f"<{stack[-1].name}> has no end: the file is cut")
    if len(top.children) != 1 or top.text:
        raise FormatError(f"expected one outermost element, found {len(top.children)}")
    return top.children[0]


def _attributes(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    pattern = re.compile(r"\s*([A-Za-z_][\w.:-]*)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
    while match := pattern.match(text, at):
        value = match[2] if match[2] is not None else match[3]
        if len(value) > MAX_VALUE:
            raise FormatError(f"an attribute of {len(value)} characters; the limit is {MAX_VALUE}")
        found.setdefault(match[1], _characters(value).translate(_BREAKS))
        at = match.end()
    if text[at:].strip():
        raise FormatError(f"not an attribute: {text[at : at + 30].strip()!r}")
    return found


def _characters(text: str) -> str:
    """Text with its references replaced, each by one character, so that the text cannot grow."""
    return re.sub(r"&([^&;\s]{0,32};?)", _character, text) if "&" in text else text


def _character(match: re.Match[str]) -> str:
    name = match[1].removesuffix(";")
    if name in _PREDEFINED:
        return _PREDEFINED[name]
    number = re.fullmatch(r"#(?:x([0-9a-fA-F]{1,6})|([0-9]{1,7}))", name)
    if number is None or not match[1].endswith(";"):
        raise FormatError(f"unsupported entity: {match[0][:30]!r}")
    code = int(number[1], 16) if number[1] else int(number[2])
    if not 0 < code <= 0x10FFFF or 0xD800 <= code < 0xE000:
        raise FormatError(f"not a character: {match[0]!r}")
    return chr(code)


def written(node: XmlNode, depth: int = 0) -> str:
    """An element as text, indented by two blanks for each level, without the text between its children."""
    quoted = "".join(f' {name}="{_quoted(value)}"' for name, value in node.attributes.items())
    margin = "  " * depth
    if not node.children:
        return f"{margin}<{node.name}{quoted}/>\n"
    below = "".join(written(child, depth + 1) for child in node.children)
    return f"{margin}<{node.name}{quoted}>\n{below}{margin}</{node.name}>\n"


def _quoted(value: str) -> str:
    for character, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ('"', "quot")):
        value = value.replace(character, f"&{name};")
    return value
