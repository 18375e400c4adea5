"""A GPU has one name in texts and pictures."""

from __future__ import annotations

import pytest

from gdrkit.formats.gpu_slot import gpu_slot, with_slots

GPUS = ("0000:1b:00.0", "0000:df:00.0")


@pytest.mark.parametrize(
    ("index", "address", "name"),
    [(7, GPUS[1], "GPU 7 (0000:df:00.0)"), (0, "", "GPU 0"), (None, GPUS[0], "GPU 0000:1b:00.0"),
     (None, "", "")],
)  # fmt: skip
def test_a_name_has_what_is_known(index, address, name):
    assert gpu_slot(index, address) == name


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("0000:df:00.0 mlx5_7", "GPU 1 (0000:df:00.0) mlx5_7"),
        (
            "GPU 0000:1b:00.0 PCIe x8, and 0000:df:00.0",
            "GPU 0 (0000:1b:00.0) PCIe x8, and GPU 1 (0000:df:00.0)",
        ),
        ("0000:1b:00.0: no error.", "GPU 0 (0000:1b:00.0): no error."),
    ],
)
def test_addresses_of_gpus_become_names(words, named):
    assert with_slots(words, GPUS) == named
    assert with_slots(named, GPUS) == named, "once is enough"


@pytest.mark.parametrize(
    "words",
    [
        "ACSCtl at 0000:1a:00.0",
        "10000:df:00.0 is another domain",
        "sys/bus/pci/devices/0000:df:00.0/numa_node",
        "run `nvidia-smi -q -i 0000:df:00.0`",
        "NVRM: GPU 0000:df:00.0: GPU has fallen off the bus.",
    ],
)
def test_other_devices_paths_commands_and_lines_of_the_kernel_stay(words):
    assert with_slots(words, GPUS) == words
