"""Shared set-up of the tests."""

from __future__ import annotations

import os
import re
from collections.abc import Generator

import pytest

MAY_SKIP_IN_CI = (
    r"not a bundle|this node has no modules\.dep",  # says nothing about the machine
    r"no Python 3\.8 here",  # no distribution packages it any more
    r"no kernel log here|needs a readable /dev/kmsg",  # a container has none
    r"needs an NVIDIA GPU",
    r"got empty parameter set|set GDRKIT_SHARED",  # reference data beside the repository, or nowhere
    r"no dump beside this log",
    r"BUTANE names it|put (ignition|talos)-",  # no package registry has them
    r"sudo apt-get install cloud-init",  # installed, it would take the machine over at its next boot
    r"udevadm verify is of systemd 254",  # Debian 12 has 252
    r"the kernel lab has no headers in its cache",  # fetched later in the same run
)
"""Everything else that a test lacks, .ci/run installs: with CI=true a skip is a failure."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if not hasattr(report, "wasxfail") and not any(re.search(row, reason) for row in MAY_SKIP_IN_CI):
            report.outcome = "failed"
            report.longrepr = f"{reason} (with CI=true nothing may be skipped)"
    return report
