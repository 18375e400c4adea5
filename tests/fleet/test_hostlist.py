"""Hostlists: what a list names, and the shortest list of some names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.fleet.hostlist import (
    NODES_LIMIT,
    expand,
    fold,
    is_own_name,
    is_same_name,
    means_one_node,
    natural,
)
from gdrkit.formats.errors import FormatError


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu[001-003]", ["gpu001", "gpu002", "gpu003"]),
        ("gpu[8-10]", ["gpu8", "gpu9", "gpu10"]),
        ("gpu[1,3-4],login1", ["gpu1", "gpu3", "gpu4", "login1"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("gpu[1-2].example.org", ["gpu1.example.org", "gpu2.example.org"]),
        ("a b\nc,,d", ["a", "b", "c", "d"]),
        ("a,a", ["a"]),
        ("[2001:db8::1]", ["2001:db8::1"]),
        ("root@[fe80::1%eth0]", ["root@fe80::1%eth0"]),
        ("2001:db8::1,admin@10.0.0.1", ["2001:db8::1", "admin@10.0.0.1"]),
        ("", []),
    ],
)
def test_a_list_names_these_nodes(text, names):
    assert expand(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "gpu[1-",
        "gpu1]",
        "gpu[[1]]",
        "gpu[]",
        "gpu[3-1]",
        "gpu[a-b]",
        "-oProxyCommand=x",
        "a;b",
        "$(id)",
        "a/b",
    ],
)
def test_what_names_no_nodes_is_refused(text):
    with pytest.raises(FormatError):
        expand(text)


@pytest.mark.parametrize("text", ["n[1-999999999]", "a[1-999]b[1-999]c[1-999]", "n[1-60000],m[1-60000]"])
def test_a_list_of_too_many_nodes_is_refused_before_it_is_expanded(text):
    with pytest.raises(FormatError, match=f"more than {NODES_LIMIT}"):
        expand(text)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["gpu031", "gpu032", "gpu033"], "gpu[031-033]"),
        (["gpu9", "gpu10", "gpu112"], "gpu[9-10,112]"),
        (["gpu09", "gpu9"], "gpu[9,09]"),
        (["gpu099", "gpu100"], "gpu[099-100]"),
        (["gpu9", "gpu010"], "gpu[9,010]"),
        (["r1n1", "r1n2", "r2n1", "r2n2"], "r[1-2]n[1-2]"),
        (["r1n1", "r1n2", "r2n1"], "r1n[1-2],r2n1"),
        (["n1.a", "n2.a", "n1.b"], "n1.b,n[1-2].a"),
        (["2001:db8::1", "2001:db8::2"], "2001:db8::1,2001:db8::2"),
        (["login"], "login"),
        ([], ""),
    ],
)
def test_names_are_folded_into_the_shortest_list(names, text):
    assert fold(names) == text


HOSTS = st.lists(
    st.one_of(
        st.from_regex(r"\A[a-c]{1,2}-?[0-9]{1,4}(?:n[0-9]{1,3})?(?:\.[a-z])?\Z"),
        st.from_regex(r"\A[a-z0-9][a-z0-9.-]{0,20}\Z"),
        st.from_regex(r"\A[0-9]{1,12}[a-z][0-9]{1,12}\Z"),
    ),
    max_size=60,
)


@given(HOSTS)
def test_a_folded_list_names_the_same_nodes(names):
    assert sorted(expand(fold(names))) == sorted(set(names))


@given(st.text(alphabet="ab019[]-,:.@% ", max_size=80))
def test_any_text_is_a_list_or_refused(text):
    try:
        names = expand(text)
    except FormatError:
        return
    assert expand(fold(names)) and set(expand(fold(names))) == set(names) if names else not names


def test_names_are_sorted_by_their_numbers():
    assert sorted(["n10", "n2", "n1", "a3"], key=natural) == ["a3", "n1", "n2", "n10"]


def test_a_list_that_names_the_same_nodes_again_and_again_is_refused():
    """Each word of it takes as long as 100,000 nodes."""
    with pytest.raises(FormatError, match="more than 100000 nodes"):
        expand("n[1-100000]," * 1000)
    assert len(expand("n[1-50000],n[1-50000]")) == 50_000


SPECIAL = (
    "ALL", "all", "All", "DEFAULT", "default", "ungrouped", "localhost", "LOCALHOST", "localhost.",
    "localhost.localdomain", "localhost6", "ip6-localhost", "x.localhost", "gpu1.localhost.localdomain",
)  # fmt: skip
"""Names that scontrol, Ansible or ssh take for something else than a node of this name."""
MORE_THAN_A_NAME = (
    "n[1-3]", "n[1", "@group", "@*", "root@gpu1", "!x", "-x", "--all", "a,b", "a b", "a\tb", "a\nb", "n%h",
    "&x", "^x", "^/etc/hosts", "~x", "*", "n?", "x;y", "$(x)", "`x`", "a/b", "n:22", "::1", "x.", ".x",
    "a..b", "",
    "127.0.0.1", "127.1", "10.0.0.5", "2130706433", "0x7f000001", "0X7f.1", "é1", "n" * 254,
)  # fmt: skip
"""What a node may call itself to be taken for several, for another one or for an option."""
ORDINARY = (
    "gpu1", "all-1", "ALLEN", "alls", "all.example.com", "default1", "localhost1", "mylocalhost", "n-1",
    "n_1", "gpu1.rack2.example.com", "10g-node", "0xgpu", "n1.2", "UNGROUPED2", "n1.logan.example",
)  # fmt: skip


@pytest.mark.parametrize("name", [*SPECIAL, *MORE_THAN_A_NAME])
def test_a_node_is_not_known_by_a_name_that_means_something_else(name):
    assert not is_own_name(name)


@pytest.mark.parametrize("name", SPECIAL)
def test_nor_does_such_a_name_stand_in_a_list_if_a_user_wrote_it(name):
    assert not means_one_node(name) and not means_one_node(f"root@{name}")


@pytest.mark.parametrize("name", ORDINARY)
def test_a_name_that_only_resembles_one_is_a_name(name):
    assert is_own_name(name) and means_one_node(name)


@pytest.mark.parametrize("name", ["10.0.0.5", "root@gpu1", "::1", "fe80::1%eth0"])
def test_addresses_that_a_user_asked_for_stand_in_a_list(name):
    assert means_one_node(name)


@pytest.mark.parametrize(
    ("asked", "own", "same"),
    [
        ("gpu1", "gpu1", True),
        ("gpu1", "GPU1", True),
        ("root@gpu1", "gpu1", True),
        ("gpu1.example.com", "gpu1", True),
        ("gpu1", "gpu1.example.com", True),
        ("10.0.0.5", "gpu1", True),
        ("2001:db8::1", "gpu1", True),
        ("gpu1", "gpu10", False),
        ("gpu1", "gpu1x.example.com", False),
        ("gpu1.a.example", "gpu1.b.example", False),
        ("gpu1", "ALL", False),
    ],
)
def test_a_node_answers_by_its_own_name_with_or_without_its_domain(asked, own, same):
    assert is_same_name(asked, own) is same
