"""What to do about the limit on locked memory: on a host, in a container, where an image decides."""

from __future__ import annotations

import pytest

from gdrkit.report.here import advice_here
from gdrkit.rules.memlock_limit import memlock_limit
from tests.rules.machines import failed, node, rdma_device

LIMITS = {"proc/self/limits": "Max locked memory         8388608              8388608            bytes\n"}
IN_CONTAINER = ("--ulimit memlock=-1", "--cap-add")
ALL_USERS = {"etc/security/limits.d/99-hpc.conf": "* - memlock unlimited\n"}
ROOT = {"etc/security/limits.d/99-root.conf": "root - memlock unlimited\n"}


def advised(*files: dict[str, str]) -> str:
    machine = node(rdma_device(), LIMITS, *files)
    given = failed(machine, memlock_limit).advice
    return advice_here(machine, "memlock-limit", given) or given


def test_a_host_raises_the_limit_of_logins_and_of_what_starts_jobs_and_starts_both_anew():
    words = advised({"proc/1/cgroup": "0::/init.scope\n"})

    assert "`* - memlock unlimited`" in words and "`root - memlock unlimited`" in words
    assert "LimitMEMLOCK=infinity" in words and "slurmd" in words
    assert "log in again, and restart these units" in words
    assert not any(option in words for option in IN_CONTAINER)


def test_a_host_is_not_told_to_write_what_it_has():
    """`*` does not include root, whose login may be what was seen."""
    words = advised(ALL_USERS)
    assert "`root - memlock unlimited`" in words and "`* - " not in words

    words = advised(ALL_USERS, ROOT)
    assert "limits.d" not in words and words.startswith("Set LimitMEMLOCK=infinity")
    assert "log in again" in words


@pytest.mark.parametrize("more", [{}, ALL_USERS])
def test_a_container_is_started_with_another_limit(more: dict[str, str]):
    """The files of its image limit nobody: what starts it decides."""
    words = advised({".dockerenv": ""}, more)

    assert all(option in words for option in IN_CONTAINER) and "limits.d" not in words


def test_where_an_image_decides_no_file_is_written():
    words = advised({"etc/os-release": "ID=talos\nVERSION_ID=v1.9.0\n"})

    assert words == "Run `gdr fix --steps raise-memlock`, which says how on Talos."
