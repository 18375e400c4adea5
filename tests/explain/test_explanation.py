"""An explanation as a document and as a page."""

import msgspec
import pytest

from gdrkit.catalogue import CODES
from gdrkit.explain.explanation import Explanation
from gdrkit.explain.text import text
from tests.explain.explaining import explained

EINVAL = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"
CRC = "[ 1.1] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n"
GEFORCE = "GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-1)\n"


def test_the_document_names_its_schema_and_survives_json():
    made = explained(EINVAL + GEFORCE)
    written = msgspec.json.encode(made)

    assert written.startswith(b'{"schema":"gdrkit.explanation/1",')
    assert msgspec.json.decode(written, type=Explanation) == made


def test_the_schema_requires_every_key_and_lists_every_code():
    types = msgspec.json.schema(Explanation)["$defs"]

    structs = [made for made in types.values() if "properties" in made]  # the others are closed sets
    assert structs and all(set(made["required"]) == set(made["properties"]) for made in structs)
    assert types["Explanation"]["properties"]["schema"] == {"enum": ["gdrkit.explanation/1"]}
    for name in ("EstablishedProblem", "Cause", "RuledOut"):
        assert types[name]["properties"]["code"]["enum"] == sorted(CODES)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("", 3),
        ("$ uname -r\n6.8.0\n", 3),  # nothing is shown to work
        ("n1:7:7 [0] NCCL INFO Registered dmabuf region 0x7f00 of 4096 Bytes\n", 0),
        ("n1:1:2 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so).\n", 0),
        ("        GPU0    mlx5_0  CPU Affinity\nGPU0     X      PIX     0-23\nmlx5_0  PIX      X\n", 3),
        (EINVAL, 3),
        ("SecureBoot enabled\nSecureBoot disabled\n", 3),
        (CRC, 2),
        (EINVAL + CRC, 2),
        (GEFORCE, 2),
        ("a GeForce, perhaps\n", 3),
    ],
)
def test_the_exit_code_is_that_of_the_worst_result(words, code):
    assert explained(words).exit_code == code


def test_the_page_reads_top_down():
    page = text(explained(f"$ modprobe nvidia_peermem\n{EINVAL}$ mokutil --sb-state\nSecureBoot disabled\n"))
    positions = [
        page.index(word)
        for word in ("A possible cause", "line 2", "What to do now", "What else", "run\n", "Also shown")
    ]

    assert positions == sorted(positions)
    assert "Secure Boot: off  (line 4)" in page


def test_a_proof_is_quoted_with_its_number():
    page = text(explained(EINVAL + CRC))

    assert "(module-crc-mismatch, nvidia_peermem)" in " ".join(page.split())
    assert "How sure: certain. Line 2 proves it." in page
    assert "line 2: [ 1.1] nvidia_peermem: disagrees" in page


def test_a_hardware_limit_is_stated_once():
    assert text(explained(GEFORCE)).count("No fix exists for this hardware") == 1


def test_a_system_that_cannot_is_no_limit_of_the_hardware():
    page = text(explained("$ uname -r\n5.15.167.4-microsoft-standard-WSL2\n"))
    assert "Boot Linux itself." in page and "this hardware" not in page


def test_a_run_of_a_geforce_is_one_program_for_which_it_works():
    run = (
        "$ ./ib_write_bw -d mlx5_0 --use_cuda=0\n"
        " #bytes #iterations BW peak[MiB/sec] BW average[MiB/sec] MsgRate[Mpps]\n"
        " 65536 5000 2920.66 2920.60 0.046730\n"
    )
    page = " ".join(text(explained(GEFORCE + run)).split())
    assert (
        "shows that it works for one program: perftest, 3.062 GB/s at 65536 bytes from GPU memory." in page
    )
    on_host = " ".join(text(explained(GEFORCE + run.replace(" --use_cuda=0", ""))).split())
    assert "it works for one program" not in on_host


def test_gpus_with_one_problem_are_named_once_and_a_rate_beside_them_is_no_all_clear():
    ranks = "".join(
        f"#  Rank  {n} Group  0 Pid  900{n} on  rig{n % 2} device  {n} [0x{n}1] NVIDIA GeForce RTX 4090\n"
        for n in range(4)
    )
    table = "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    page = text(
        explained(f"{ranks}{table}  1073741824 268435456     float    sum      -1   1000.0   7.98  7.98 0\n")
    )

    assert page.splitlines()[0] == "No failure shown"
    assert page.count("which NVIDIA does not support") == 1 and "and 3 more" in page


def test_verbose_shows_how_to_check_each_cause():
    page = text(explained(EINVAL), verbose=True)

    assert "peermem-stub: modinfo nvidia-peermem shows an empty `depends:`" in page.replace("\n      ", " ")


def test_an_unrelated_text_is_told_what_to_run_and_an_unrelated_output_what_to_paste():
    assert "Run `gdr doctor`" in text(explained("hello\n"))
    assert "Useful input: the log of all ranks of a job" in text(explained("$ uname -r\n6.8.0\n"))


def test_several_machines_are_named():
    page = text(explained(f"root@a1:~# x\n{EINVAL}root@b1:~# x\n{CRC}"))

    assert "Line 4 proves it, on b1." in page
    assert "To tell the causes apart, run on a1" in page


def test_a_page_fits_its_width():
    assert (
        max(map(len, text(explained(EINVAL + CRC.replace("ib_", "ib_" + "x" * 300)), width=60).splitlines()))
        <= 60
    )
