"""Lines that name no machine belong to the only one that the text names, unless they contradict it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.explain.outputs.pasted_host import MOST_AUTHORS, PastedHost
from tests.explain.explaining import explained

INVALID = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"
STUB = "depends:\nname:           nvidia_peermem\n"
MODINFO = (
    f"root@alpha:~# modinfo nvidia-peermem\nfilename:       /lib/modules/6.8.0/nvidia-peermem.ko\n{STUB}"
)


def posted(**posts: str) -> str:
    return "".join(f"{who} \u00b7 comment \u00b7 2026\n{text}\n" for who, text in posts.items())


def machines(text: str) -> list[str]:
    return [host.machine for host in PastedHost(text).machines()]


def test_an_unnamed_machine_and_the_only_named_one_are_one():
    assert machines(f"{INVALID}\nThis is what I have there:\n\n{MODINFO}") == ["alpha"]


def test_a_stub_seen_at_a_prompt_explains_the_error_without_one():
    (machine,) = explained(f"{INVALID}\nThis is what I have there:\n\n{MODINFO}").machines

    assert "peermem-stub" in [found.code for found in machine.established]
    assert machine.open == ()


def test_the_posts_of_several_people_are_about_one_machine():
    assert machines(posted(ann=MODINFO, bob=INVALID)) == ["alpha"]
    assert machines(posted(ann=INVALID, bob="SecureBoot enabled\n")) == [""]


def test_a_post_that_shows_another_kernel_is_about_another_machine():
    text = posted(ann="$ uname -r\n6.8.0-90-generic\n", bob="$ uname -r\n5.15.0-100-generic\n")

    assert machines(text) == ["", "bob's machine"]


def test_a_post_that_shows_another_gpu_is_about_another_machine():
    text = posted(
        ann="$ nvidia-smi -L\nGPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n",
        bob="$ nvidia-smi -L\nGPU 0: NVIDIA L40S (UUID: GPU-2)\n",
    )

    assert machines(text) == ["", "bob's machine"]


def test_a_table_with_another_gpu_at_the_same_address_is_of_another_machine():
    row = "|   0  NVIDIA {:<20} On  |   00000000:1B:00.0 Off |                    0 |\n"

    assert machines(posted(ann=row.format("H200"), bob=row.format("L40S"))) == ["", "bob's machine"]
    assert machines(posted(ann=row.format("H200"), bob=row.format("H200"))) == [""]


@pytest.mark.parametrize("loaded_first", [True, False])
def test_a_module_that_is_loaded_for_one_and_absent_for_another_tells_two_machines_apart(loaded_first):
    loaded = "$ lsmod | grep nvidia_peermem\nnvidia_peermem 16384 0\n"
    absent = "$ uname -m\nx86_64\n$ lsmod | grep nvidia_peermem\n$ date\n"
    ann, bob = (loaded, absent) if loaded_first else (absent, loaded)

    assert machines(posted(ann=ann, bob=bob)) == ["", "bob's machine"]


def test_two_named_machines_stay_two_and_an_unnamed_one_is_neither():
    text = posted(ann="root@alpha:~# lsmod\nnvidia 1000 0\nroot@beta:~# lsmod\nnvidia 1000 0\n", bob=INVALID)

    assert machines(text) == ["alpha", "beta", ""]


def test_more_authors_than_are_compared_have_their_own_machines():
    text = posted(**{f"user{number}": INVALID for number in range(MOST_AUTHORS + 2)})

    assert len(machines(text)) == MOST_AUTHORS + 2


@given(
    st.lists(
        st.sampled_from([INVALID, MODINFO, "$ uname -r\n6.8.0\n", "$ uname -r\n5.15.0\n", "so it is\n"]),
        max_size=5,
    )
)
def test_every_line_has_one_machine(texts):
    host = PastedHost(posted(**{f"user{number}": text for number, text in enumerate(texts)}))
    numbers = [line.number for one in host.machines() for line in one.own_lines]

    assert sorted(numbers) == [line.number for line in host.lines]
