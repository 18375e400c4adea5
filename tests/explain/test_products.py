"""The name of a GPU says that it is neither a GeForce nor integrated, for each product line of NVIDIA's."""

from __future__ import annotations

import pytest

from gdrkit.explain.products import CARDS, DATACENTER, products
from gdrkit.facts.gpu_ids import SUPPORTED
from tests.explain.explaining import explained

OTHERS = (  # in no list of gpu_ids: g_nv_name_released.h of open-gpu-kernel-modules 615.71.09
    "NVIDIA RTX 500 Ada Generation Laptop GPU",
    "NVIDIA RTX 1000 Ada Generation Laptop GPU",
    "NVIDIA RTX 3500 Ada Generation Laptop GPU",
    "NVIDIA RTX A500 Laptop GPU",
    "NVIDIA RTX PRO 500 Blackwell Generation Laptop GPU",
    "NVIDIA RTX PRO 1000 Blackwell Generation Laptop GPU",
    "NVIDIA T400 4GB",
    "NVIDIA T1000 8GB",
    "NVIDIA A2",
    "Quadro T1000",
)


@pytest.mark.parametrize("name", sorted({*SUPPORTED.values(), *OTHERS}))
def test_the_names_of_professional_products_are_known(name: str):
    assert products(f"GPU 0: {name} (UUID: GPU-0a0b0c0d)") == {DATACENTER}


@pytest.mark.parametrize("name", ["GA102GL [A10G]", "GA107GL [A2 / A16]", "TU117GL [T600]", "AD104GL [L4]"])
def test_the_names_of_lspci_are_known(name: str):
    assert products(f"01:00.0 3D controller: NVIDIA Corporation {name} (rev a1)") == {DATACENTER}
    assert not products(f"01:00.0 3D controller: NVIDIA Corporation {name.partition(' ')[0]} (rev a1)")


@pytest.mark.parametrize("name", ["NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5050", "NVIDIA TITAN Xp"])
def test_a_geforce_or_titan_is_no_professional_product(name: str):
    assert products(name) == {"gpu-consumer"}


@pytest.mark.parametrize(
    "name", ["NVIDIA Graphics Device", "NVIDIA Thor", "NVIDIA RTX Spark", "Matrox T1000", "[A2]"]
)
def test_names_that_do_not_tell_the_kind_exclude_nothing(name: str):
    assert not products(name)


REFUSED = "$ ib_write_bw --use_cuda=0 --use_cuda_dmabuf\nDMA-BUF is not supported on this GPU\n"


@pytest.mark.parametrize(
    "name", ["NVIDIA RTX A1000", "NVIDIA RTX PRO 6000D Blackwell Workstation Edition", "NVIDIA L4"]
)
def test_a_printed_name_excludes_the_kinds_of_gpus_that_it_is_not(name: str):
    listed = f"$ nvidia-smi -L\nGPU 0: {name} (UUID: GPU-0a0b0c0d-0000-0000-0000-000000000001)\n"
    codes = [one.code for one in explained(listed + REFUSED).answer.others]
    assert codes and not set(codes) & set(CARDS)
    unnamed = [one.code for one in explained(REFUSED).answer.others]
    assert set(CARDS) <= set(unnamed)


DEVICES = "rocep1s0f0 rocep1s0f1 roceP2p1s0f0 roceP2p1s0f1"


@pytest.mark.parametrize(
    ("text", "is_spark"),
    [
        (DEVICES, True),
        ("NET/IB : Using [0]rocep1s0f0:1/RoCE [1]rocep1s0f1:1/RoCE [2]roceP2p1s0f0:1/RoCE"
         " [3]roceP2p1s0f1:1/RoCE [RO]; OOB enP7s7:10.0.0.1<0>", True),
        ("enp1s0f0np0 DOWN\nenp1s0f1np1 UP\nenP2p1s0f0np0 DOWN\nenP2p1s0f1np1 UP", True),
        ("rocep1s0f0 port 1 ==> enp1s0f0np0 (Up)\nrocep1s0f1 port 1 ==> enp1s0f1np1 (Up)", False),
        (DEVICES.replace("P2p1s0f1", "P2p1s0f10"), False),
    ],
)  # fmt: skip
def test_the_names_of_all_four_devices_name_a_spark_and_those_of_one_card_do_not(text: str, is_spark: bool):
    assert ("gpu-integrated" in products(text)) is is_spark
