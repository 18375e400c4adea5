"""JSON that readers accept, whatever a name in it is."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats.json_text import encode

TEXTS = st.text(st.characters(exclude_categories=()))


class Named(msgspec.Struct):
    name: str
    others: dict[str, tuple[str, ...]]


@given(st.builds(Named, TEXTS, st.dictionaries(TEXTS, st.tuples(TEXTS))))
def test_every_document_is_json_that_a_strict_reader_accepts(document):
    found = msgspec.json.decode(encode(document), type=Named)
    assert found.name == document.name.encode("utf-8", "replace").decode()
    assert set(found.others) == {name.encode("utf-8", "replace").decode() for name in document.others}


def test_a_document_without_such_a_name_is_as_short_as_before():
    document = Named("naïve", {"a": ("b",)})
    assert encode(document) == msgspec.json.encode(document)
    assert encode([object], enc_hook=lambda _: "x") == b'["x"]'
    assert encode(["\udcff", object], enc_hook=lambda _: "x") == b'["?", "x"]'
