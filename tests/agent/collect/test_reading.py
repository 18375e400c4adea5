"""Reading below a root: links, limits, timeouts, patterns."""

from __future__ import annotations

import os
import time

import pytest

from gdrkit.agent.collect.patterns import alternatives, expression, folders, select, unfold
from gdrkit.agent.collect.timeouts import TimeLimitedCalls
from gdrkit.agent.collect.tree import Tree, outcome


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/file").write_text("inside")
    return Tree(str(tmp_path))


def test_an_absolute_link_is_followed_inside_the_root(tree, tmp_path):
    (tmp_path / "etc/link").symlink_to("/etc/file")

    assert tree.resolve("etc/link") == "etc/file"
    assert tree.links == {"etc/link": "file"}


def test_a_link_cannot_climb_out(tree, tmp_path):
    (tmp_path / "etc/link").symlink_to("../../../../etc/file")

    assert tree.resolve("etc/link") == "etc/file"
    assert tree.links == {"etc/link": "file"}


def test_a_loop_of_links_is_an_error(tree, tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    with pytest.raises(OSError, match="Too many levels"):
        tree.resolve("a/x")


def test_a_missing_path_is_resolved_as_far_as_it_exists(tree, tmp_path):
    (tmp_path / "lib").symlink_to("usr/lib")

    assert tree.resolve("lib/modules/x") == "usr/lib/modules/x"


def test_no_more_than_the_limit_is_read(tree):
    content = tree.read("etc/file", 3)

    assert (content.data, content.whole) == (b"ins", False)
    assert tree.read("etc/file", 6).whole


def test_a_pipe_does_not_block(tree, tmp_path):
    os.mkfifo(tmp_path / "etc/pipe")

    with pytest.raises(OSError, match="not a regular file"):
        tree.read("etc/pipe", 10)


def test_errors_become_statuses_of_the_manifest():
    assert outcome(FileNotFoundError(2, "No such file or directory")) == ("absent", "")
    assert outcome(PermissionError(13, "Permission denied")) == ("denied", "Permission denied")
    assert outcome(TimeoutError("no answer within 5 s")) == ("timed-out", "no answer within 5 s")
    assert outcome(OSError(22, "Invalid argument")) == ("unreadable", "Invalid argument")


def test_a_call_that_hangs_times_out():
    patience = TimeLimitedCalls(limit_s=0.05)

    with pytest.raises(TimeoutError):
        patience.call(time.sleep, 0.5)
    assert patience.call(len, "abc") == 3
    patience.close()


def test_errors_of_a_call_are_raised():
    with pytest.raises(FileNotFoundError):
        TimeLimitedCalls().call(os.listdir, "/does/not/exist")


# -- patterns --------------------------------------------------------------------------------------


def test_choices_are_expanded():
    assert alternatives("a{b,c}d{,e}") == ["abd", "abde", "acd", "acde"]
    assert unfold("{usr/,}lib/x{1,2}") == ["usr/lib/x{1,2}", "lib/x{1,2}"]


def test_names_are_selected_in_their_own_order():
    assert select(["a", "b1", "c", "b2"], ["c", "b*"]) == ["b1", "c", "b2"]


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("sys/*/x", "sys/a/x", True),
        ("sys/*/x", "sys/a/b/x", False),
        ("sys/{a,b*}/x", "sys/bcd/x", True),
        ("sys/{a,b*}/x", "sys/c/x", False),
        ("boot/config-<release>", "boot/config-6.1.0", True),
        ("boot/config-<release>", "boot/config-", False),
        ("a.b", "axb", False),
        ("{usr/,}lib", "usr/lib", True),
    ],
)
def test_patterns_as_regular_expressions(pattern, path, fits):
    assert bool(expression(pattern).match(path)) is fits


def test_folders_that_are_listed_for_a_pattern():
    assert folders("sys/*/x/{a,b}") == ["sys", "sys/*/x"]
