"""What kernels read of pci=config_acs=."""

from __future__ import annotations

import pytest

from gdrkit.repair.platforms.acs_arguments import (
    config_acs,
    disable_acs_redir,
    reads_config_acs,
    reads_lists,
)

MASKS = {"0008:00:00.0": "xx111x0", "0008:02:00.0": "xx110x1"}


@pytest.mark.parametrize(
    ("release", "reads", "lists"),
    [
        ("6.6.80", False, True),  # disable_acs_redir, before the code that read one device alone
        ("5.15.0-1040-nvidia", False, True),  # NVIDIA's, too, is older than config_acs
        ("6.8.0-45-generic", False, True),
        ("6.7.0-1003-nvidia", False, True),
        ("6.8.0-1003-nvidia", True, None),
        ("6.10.14", False, True),
        ("6.11.0", True, None),
        ("6.8.0-1021-nvidia-64k", True, None),
        ("6.11.0-1003-nvidia", True, None),
        ("6.11.5", True, False),
        ("6.12.22", True, False),
        ("6.12.23", True, True),
        ("6.14.0-1003-nvidia-64k", True, None),
        ("6.14.1", True, False),
        ("6.15.0-rc3", True, True),
        ("mainline", False, None),
    ],
)
def test_a_kernel_reads_every_device_the_first_or_none(release, reads, lists):
    assert (reads_config_acs(release), reads_lists(release)) == (reads, lists)


def test_the_argument_has_each_port_with_its_mask():
    assert config_acs(MASKS) == "pci=config_acs=xx111x0@0008:00:00.0;xx110x1@0008:02:00.0"


def test_an_older_kernel_gets_a_list_without_masks_and_keeps_the_other_devices():
    present = ("noats", "disable_acs_redir=0000:01:00.0;0000:03:00.0")

    assert disable_acs_redir(("0000:01:00.0", "0000:02:00.0"), present) == (
        "pci=noats,disable_acs_redir=0000:01:00.0;0000:02:00.0;0000:03:00.0"
    )


def test_other_options_and_devices_are_kept_and_former_bits_of_the_layout_are_not():
    present = ("noats,config_acs=0000000@0008:00:00.0;1xx@0001:00:00.0;xx000x0@0008:05:00.0",)

    assert config_acs(MASKS, present, drop=("0008:05:00.0",)) == (
        "pci=noats,config_acs=xx111x0@0008:00:00.0;xx110x1@0008:02:00.0;1xx@0001:00:00.0"
    )
