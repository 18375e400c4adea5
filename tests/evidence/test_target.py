"""Targets that cannot be opened: what is wrong, and what to do."""

from __future__ import annotations

import errno
import os

import pytest

from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.running import record_of
from gdrkit.evidence.target import open_host
from gdrkit.facts.commands import RUNNING


@pytest.mark.parametrize(
    ("number", "hint"), [(errno.EACCES, "run as root"), (errno.EPERM, "run as root"), (errno.ENOENT, "")]
)
def test_only_what_root_may_read_says_so(number: int, hint: str, monkeypatch: pytest.MonkeyPatch):
    found = os.stat

    def refused(path: str, **more: bool) -> os.stat_result:
        if path == "node.tar.gz":
            raise OSError(number, os.strerror(number))
        return found(path, **more)

    monkeypatch.setattr(os, "stat", refused)
    with pytest.raises(TargetError) as caught:
        open_host("node.tar.gz")
    assert str(caught.value) == f"node.tar.gz: {os.strerror(number).lower()}"
    assert caught.value.hint == hint


@pytest.mark.parametrize("target", ["ssh://", "ssh://-oProxyCommand=id", "ssh://host:port", "ssh://a b"])
def test_a_destination_that_ssh_would_take_for_something_else_is_refused(target: str):
    with pytest.raises(TargetError, match="not a valid ssh target"):
        record_of(target, RUNNING)
