"""The parser of manifests: what it adds to PyYAML's result, and what it refuses."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gdrkit.formats.errors import FormatError
from gdrkit.formats.yaml_text import CHARACTERS_LIMIT, DEPTH_LIMIT, DOCUMENTS_LIMIT, EVENTS_LIMIT, documents
from gdrkit.formats.yaml_values import DuplicateKey, Scalar, Value, YamlMapping, at, duplicates, text_at


@pytest.fixture(params=["C", "Python"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """libyaml where PyYAML was built with it, and Python where it was not."""
    if request.param == "Python":
        monkeypatch.delattr(yaml, "CSafeLoader")


POLICY = """\
apiVersion: nvidia.com/v1
kind: ClusterPolicy
spec:
  driver:
    enabled: true
    rdma: {enabled: true, useHostMofed: true}  # host OFED
  # or with containers:
  driver:
    rdma:
      enabled: "true"
"""


def scan(text: str) -> Value:
    """The single document of a text. Raises FormatError if it is none, several, or cannot be read."""
    found = documents(text)
    if len(found) != 1 or found[0].value is None:
        raise FormatError(", ".join(document.fault for document in found))
    return found[0].value


def plain(value: Value) -> object:
    match value:
        case Scalar(text=text):
            return text
        case YamlMapping(entries=entries):
            return {entry.key: plain(entry.value) for entry in entries}
        case _:
            return [plain(item) for item in value.items]


def test_the_last_duplicate_key_counts_and_both_lines_are_kept():
    value = scan(POLICY)

    assert list(duplicates(value)) == [DuplicateKey(("spec", "driver"), (4, 8))]
    assert at(value, "spec", "driver", "enabled") is None
    assert text_at(value, "spec", "driver", "rdma", "useHostMofed") == ""


def test_a_quoted_word_differs_from_a_bare_one():
    found = at(scan(POLICY), "spec", "driver", "rdma", "enabled")

    assert found == Scalar("true", 10, quoted=True)


def test_a_key_in_two_items_of_a_list_is_not_a_duplicate():
    text = "env:\n- name: A\n  value: x\n- name: B\n  value: y\n"

    assert list(duplicates(scan(text))) == []


def test_duplicates_are_found_inside_lists_and_flow_mappings():
    text = "list:\n  - {a: 1, b: 2, a: 3}\n"

    assert list(duplicates(scan(text))) == [DuplicateKey(("list", "0", "a"), (2, 2))]


def test_json_is_parsed_too():
    text = '{"kind": "List",\n "items": [{"kind": "ClusterPolicy", "spec": {}}, {"a": [1, "\\u00e9"]}]}\n'

    assert plain(scan(text)) == {
        "kind": "List",
        "items": [{"kind": "ClusterPolicy", "spec": {}}, {"a": ["1", "é"]}],
    }


def test_text_that_looks_like_keys_inside_a_block_scalar_stays_text():
    text = "contents:\n  inline: |\n    a: 1\n    a: 2\n\n  mode: 0644\n"

    assert plain(scan(text)) == {"contents": {"inline": "a: 1\na: 2", "mode": "0644"}}
    assert list(duplicates(scan(text))) == []


def test_an_empty_text_has_no_document():
    assert documents("") == ()


def test_one_unreadable_document_does_not_affect_others():
    found = documents("a: 1\n---\nb: &anchor 2\n---\nc: 3\n")

    assert [document.line for document in found] == [1, 2, 4]
    assert [document.value is None for document in found] == [False, True, False]
    assert "line 3" in found[1].fault


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: *x\n", "starts with '*'"),
        ("base: &b\n  a: 1\n", "starts with '&'"),
        ("<<: {a: 1}\n", "merge key"),
        ("\ta: 1\n", "tab"),
        ("a: b: c\n", "second key"),
        ("a: !t b\n", "starts with '!'"),
        ("a: `b`\n", "starts with '`'"),
        ("{a}\n", "without a value"),
        ("[a]: b\n", "after a flow collection"),
        ("[a] b\n", "after a flow collection"),
        ("a: [1 2, {b: c} d]\n", "no comma"),
        ("a: 'b' c\n", "does not belong to a key above"),
        ("a: 1\nb\n", "not a key"),
        ("a: 'b\nc: d\n", "does not end"),
        ("a: \x1b[1m\n", "YAML does not allow"),
        ("a: \udc80\n", "YAML does not allow"),
        ("a: [1, 2\n", "does not end"),
        ("some prose, as in a forum post\n", "neither a mapping"),
    ],
)
def test_refused_syntax_is_named(text: str, complaint: str, parser: None):
    with pytest.raises(FormatError, match=complaint.replace("*", r"\*").replace("?", r"\?")):
        scan(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("? a\n: b\n", {"a": "b"}),
        ("a: b\n  c\n", {"a": "b c"}),
        ("a: 'b\n  c'\n", {"a": "b c"}),
        ("a: |2\n    b\n", {"a": "  b"}),
        ("a: >\n  b\n\n  c\n", {"a": "b\nc"}),
        ("a: [no, on, 0644, ~]\nb:\n", {"a": ["no", "on", "0644", "~"], "b": ""}),
        ('{"a": "\\ud83d\\ude00 \\/"}', {"a": "\U0001f600 /"}),
        ("\ufeffa: b\n", {"a": "b"}),
    ],
)
def test_scalars_stay_as_written(text: str, value: object, parser: None):
    assert plain(scan(text)) == value


def test_line_numbers_are_those_of_an_editor(parser: None):
    """U+0085 does not end a line, though it does in PyYAML; and an empty value has the line of its key."""
    (document,) = documents("\ufeff\n---\na: x\x85\nb:\n\n\nc:\n  - d\n  -\nd: {e:\n\n }\n")
    value = document.value

    assert isinstance(value, YamlMapping)
    assert [(entry.key, entry.line, entry.value.line) for entry in value.entries] == [
        ("a", 3, 3), ("b", 4, 4), ("c", 7, 8), ("d", 10, 10),
    ]  # fmt: skip
    assert at(value, "d", "e") == Scalar("", 10)


def test_a_byte_order_mark_does_not_shift_lines(parser: None):
    value = scan("\ufeffa: 1\nb: 2\n")

    assert isinstance(value, YamlMapping)
    assert [entry.line for entry in value.entries] == [1, 2]


def test_an_alias_is_never_followed(parser: None):
    bomb = "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(9))
    with pytest.raises(FormatError, match="line 1: a scalar that starts with '&'"):
        scan(bomb)


def test_half_an_escape_is_an_error_not_a_crash(parser: None):
    for text in ('{"a": "\\ud8zz\\udc00"}', '{"a": "\\ud83d"}', '{"a": "\\UFFFFFFFF"}'):
        with pytest.raises(FormatError, match="line 1: "):
            scan(text)


@pytest.mark.parametrize(("size", "read"), [((4 << 20) - 1, True), (4 << 20, True), ((4 << 20) + 1, False)])
def test_more_than_four_mib_are_not_read(size: int, read: bool):
    assert (documents(" " * size) == ()) is read


def test_the_size_is_limited():
    (found,) = documents("a: " + "x" * CHARACTERS_LIMIT)
    assert found.value is None and "more than" in found.fault


def test_the_depth_is_limited(parser: None):
    """Also where PyYAML's compose() would end the process."""
    with pytest.raises(FormatError, match="nested deeper"):
        scan("[" * (DEPTH_LIMIT + 2) + "]" * (DEPTH_LIMIT + 2))
    with pytest.raises(FormatError, match="nested deeper"):
        scan("- " * 5000 + "a")
    with pytest.raises(FormatError, match="nested deeper"):
        scan("[" * 300_000)


_scalars = st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=126), max_size=12)
_names = st.from_regex(r"[A-Za-z][A-Za-z0-9_./-]{0,10}", fullmatch=True)
_objects = st.recursive(
    _scalars | st.integers().map(str) | st.booleans().map(str),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_names, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@example({"A": "-0 0"}, False)
@example({"A": [":x", "?0"]}, True)
@given(st.dictionaries(_names, _objects, min_size=1, max_size=4), st.booleans())
def test_text_written_by_a_yaml_library_is_read_back(value: dict[str, object], flow: bool):
    text = yaml.safe_dump(value, default_flow_style=flow or None, width=10_000)

    assert plain(scan(text)) == yaml.load(text, yaml.BaseLoader)


_INDENTED = ("a: ", "b:\n", "- ", "  ", "\n", "\n  ", "key: v\n", "# x\n", "|\n", ">\n", "- c\n")
_ODD = (
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "'",
    "&a ",
    "*a",
    "!t ",
    "---\n",
    "\t",
    "?",
    "x",
    "<<: ",
    "\\",
    "%",
)
_pieces = st.sampled_from(_INDENTED + _ODD)


@settings(max_examples=400, deadline=None)
@given(st.lists(_pieces, max_size=16).map("".join))
def test_any_text_is_refused_or_read_as_by_a_yaml_library(text: str):
    try:
        ours = plain(scan(text))
    except FormatError:
        return
    try:
        theirs = yaml.load(text, yaml.BaseLoader)
    except yaml.YAMLError:
        return  # this parser may accept more than PyYAML, but never gives another result

    assert _stripped(ours) == _stripped(theirs)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_any_text_gives_documents(text: str):
    for document in documents(text):
        assert (document.value is None) == bool(document.fault)


def _stripped(value: object) -> object:
    """Values without the final line break of block scalars, which does not matter here."""
    match value:
        case dict():
            return {_stripped(key): _stripped(item) for key, item in value.items()}
        case list():
            return [_stripped(item) for item in value]
        case str():
            return value.rstrip("\n")
    return value


def test_documents_and_keys_are_bounded_as_the_work_follows_them():
    """Every other limit left 400,000 documents of 4 MiB, which took 12 seconds."""
    found = documents("a:\n---\n" * (DOCUMENTS_LIMIT + 9))
    assert len(found) == DOCUMENTS_LIMIT + 1
    assert [one.fault for one in found if one.fault] == [
        "line 20000: after 10,000 documents, which is the limit"
    ]


def test_a_value_beyond_the_limit_is_a_fault_of_its_document(monkeypatch):
    monkeypatch.setattr("gdrkit.formats.yaml_text.EVENTS_LIMIT", 30)
    found = documents("- a\n---\n" + "- b\n" * 40 + "---\n- c\n")
    assert [bool(one.value) for one in found] == [True, False, False] and EVENTS_LIMIT >= 100_000
    assert found[1].fault.endswith("more than 30 keys and values") and "limit" in found[2].fault
