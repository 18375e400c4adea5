"""Text that somebody pasted."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Absent, Command, Lacks
from gdrkit.host.pasted import PastedHost


def test_the_text_is_all_there_is():
    host = PastedHost("modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n")

    assert host.read("pasted").startswith(b"modprobe: ERROR")
    assert bytes(host.map("pasted")) == host.read("pasted")
    assert host.exists("pasted")
    for ask in (host.read, host.map, host.list, host.exists):
        with pytest.raises(Lacks) as error:
            ask("proc/modules")
        assert not isinstance(error.value, Absent)
    with pytest.raises(Lacks):
        host.run(Command(("dmesg",), ("pasted",)))
