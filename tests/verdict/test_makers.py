"""Which causes a machine without a GPU of NVIDIA can have."""

from __future__ import annotations

import pytest

from gdrkit.verdict.makers import needs_nvidia


@pytest.mark.parametrize(
    "code", ["peermem-not-loaded", "driver-proprietary", "gpu-mig", "ucx-misses-peermem"]
)
def test_modules_and_gpus_of_nvidia_have_causes_of_their_own(code: str):
    assert needs_nvidia(code)


@pytest.mark.parametrize("code", ["port-down", "acs-redirect", "memlock-limit", "no-rdma-device"])
def test_nics_links_and_limits_fail_for_every_maker(code: str):
    assert not needs_nvidia(code)
