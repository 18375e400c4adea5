"""Every kind of report in a real browser: quiet, within the window, usable by keyboard, on paper."""

from __future__ import annotations

import pytest

from tests.html import gallery
from tests.html.browser import cut_on_paper, overflow, violations

NODES = ("rail-down", "acs-redirect", "spark-two-cables", "h200-vm", "no-gpu", "sixteen")


@pytest.mark.parametrize("name", NODES)
def test_the_report_on_a_node(name, browser, tmp_path):
    file = gallery.node_file(name, tmp_path)
    for scheme in ("light", "dark"):
        with browser.opened(file, color_scheme=scheme) as page:
            assert not violations(page)
            if scheme == "light":
                assert not overflow(page)
                assert not cut_on_paper(page)
