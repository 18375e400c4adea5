"""The part of XML that topology files use, and nothing that does harm."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats import xml_text
from gdrkit.formats.errors import FormatError

WORDS = [
    b"<a>",
    b"</a>",
    b"<b c='1'/>",
    b"<!--",
    b"-->",
    b"<!DOCTYPE t [",
    b"&x;",
    b'"',
    b"<",
    b">",
    b"\xff",
    b" t ",
]


def test_elements_attributes_and_text_are_read():
    root = xml_text.parse(b"<?xml version='1.0'?>\n<!-- by hand --><a b=\"1\" c = '2'>x<d/>y</a>\n")
    assert root.attributes == {"b": "1", "c": "2"}
    assert [child.name for child in root.children] == ["d"]
    assert root.text == "x y"


def test_only_predefined_entities_and_numbers_of_characters_are_read():
    assert xml_text.parse(b'<a b="&lt;&amp;&#65;&#x42;"/>').get("b") == "<&AB"


@pytest.mark.parametrize(
    ("code", "is_one"),
    [(0, False), (1, True), (0xD7FF, True), (0xD800, False), (0xDFFF, False), (0xE000, True),
     (0x10FFFF, True), (0x110000, False)],
)  # fmt: skip
def test_a_number_of_half_a_character_or_of_none_is_refused(code, is_one):
    content = f'<a b="&#x{code:X};"/>'.encode()
    if is_one:
        assert xml_text.parse(content).get("b") == chr(code)
    else:
        with pytest.raises(FormatError):
            xml_text.parse(content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"text",
        b"<a>",
        b"<a></b>",
        b"</a>",
        b"<a/><b/>",
        b'<a b="&mine;"/>',
        b'<a b="&#xD800;"/>',
        b'<a b="&#0;"/>',
        b'<!DOCTYPE a [<!ENTITY x "ha">]><a>&x;</a>',
        b"<![CDATA[x]]>",
        b"<a><![CDATA[x]]></a>",
        b"<a b=1/>",
        b'<a b="1',
        b"<!-- no end",
        b"<a/>after",
        b"<a>" * 200 + b"</a>" * 200,
    ],
)
def test_what_is_not_one_plain_element_is_refused(content):
    with pytest.raises(FormatError):
        xml_text.parse(content)


def test_the_number_of_elements_is_bounded():
    with pytest.raises(FormatError, match="more than 9 elements"):
        xml_text.parse(b"<a>" + b"<b/>" * 9 + b"</a>", max_nodes=9)


def test_an_attribute_has_one_line_and_a_bounded_length():
    found = xml_text.parse(b"<a b='x&#10;NAME=1&#x0d;&#9;\n.'/>")
    assert found.get("b") == "x NAME=1   ."
    longest = b"f" * xml_text.MAX_VALUE
    assert len(xml_text.parse(b'<a b="' + longest + b'"/>').get("b")) == xml_text.MAX_VALUE
    with pytest.raises(FormatError, match="the limit is"):
        xml_text.parse(b'<a b="' + longest + b'f"/>')


def test_what_is_written_is_read_again():
    root = xml_text.parse(b'<a b="&lt;&quot;"><c d="1"/><c><e/></c></a>')
    assert xml_text.parse(xml_text.written(root).encode()) == root


@given(st.binary() | st.lists(st.sampled_from(WORDS)).map(b"".join))
def test_any_bytes_give_an_element_or_a_format_error(content):
    with contextlib.suppress(FormatError):
        xml_text.parse(content)
