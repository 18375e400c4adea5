"""Causes that only people's words name: which are the answer, and which leave the text without one.

Each way in which prose mentions a cause that the machine does not have has a near miss beside it, in which
the same words report it.
"""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained

STORY = """
The cluster has eight nodes with H100 GPUs and ConnectX-7 adapters.
Training runs over InfiniBand. The all-reduce is slower than last week's. We compared three images.
The firmware is the same on all of them. The job uses sixteen ranks. Logs are attached.
"""
"""A report that says much, and names no cause."""


def answered(text):
    return explained(text).answer


@pytest.mark.parametrize(
    "sentence",
    [
        "Without nvidia_peermem loaded, GDR would otherwise not work at all.",
        "Typically nvidia_peermem is not loaded after a driver update.",
        "According to the documentation nvidia_peermem is not loaded by default.",
        "On another cluster nvidia_peermem was not loaded.",
        "On the old system nvidia_peermem was not loaded, and it was the same.",
        "Previously nvidia_peermem was not loaded here.",
        "nvidia_peermem was not loaded, which has since been fixed.",
        "A similar issue says that nvidia_peermem is not loaded.",
        "Suppose nvidia_peermem is not loaded.",
        "Perhaps nvidia_peermem is not loaded?",
        "You should check that nvidia_peermem is not missing.",
    ],
)
def test_what_holds_in_general_elsewhere_or_formerly_is_not_the_cause(sentence):
    found = answered(f"All-reduce is slow\n{STORY}\n{sentence}\n")
    assert found.cause is None
    assert found.sureness != "certain"


@pytest.mark.parametrize(
    "sentence",
    [
        "The root cause was that nvidia_peermem was not loaded.",
        "nvidia_peermem was not loaded on two of them, that was the problem.",
        "The problem was solved by loading nvidia_peermem.",
    ],
)
def test_what_was_found_is_the_cause_that_the_text_says(sentence):
    text = f"All-reduce is slow\n{STORY}\n{sentence}\n"
    found = explained(text)
    assert (found.answer.cause, found.answer.claimed) == ("peermem-not-loaded", True)
    assert found.answer.sentence.startswith("The text says: ")
    assert found.answer.sureness == "likely"
    assert not any(machine.established for machine in found.machines)
    assert found.exit_code == 3


def test_a_state_in_passing_is_no_answer_in_a_long_text_unless_another_part_agrees():
    passing = "nvidia_peermem is not loaded.\n"
    assert answered(f"All-reduce is slow\n{STORY}\n{passing}").cause is None
    twice = f"nvidia_peermem is not loaded any more\n{STORY}\n{passing}"
    assert answered(twice).cause == "peermem-not-loaded"
    assert answered(f"All-reduce is slow.\n\n{passing}").cause == "peermem-not-loaded"


def test_words_that_name_several_causes_get_none_and_the_command_that_decides():
    text = "All-reduce is slow\n\nACS is enabled.\n\nThe memlock limit is 64 KB.\n"
    found = explained(text)
    assert (found.answer.kind, found.answer.cause) == ("several", None)
    assert "No output in it shows the cause" in found.answer.sentence
    assert {"acs-redirect", "memlock-limit"} <= {other.code for other in found.answer.others}
    assert found.question is not None
    assert found.exit_code == 3
    decided = f"{text}\nThe culprit was ACS: it was enabled on the switches.\n"
    assert answered(decided).cause == "acs-redirect"


def test_a_cause_that_brings_the_other_one_about_is_no_rival_of_it():
    found = answered("nvidia_peermem is missing here\n\nIt is not loaded because it was blacklisted.\n")
    assert found.cause in (None, "module-blacklisted")
    assert answered("nvidia_peermem was blacklisted, that was the issue.\n").cause == "module-blacklisted"


def test_a_guess_at_a_deeper_cause_is_not_put_before_the_stated_one():
    stated = "The root cause was that nvidia_peermem is not loaded."
    guessed = answered(f"{stated}\n\nPerhaps the module was not found in the image?\n")
    assert guessed.cause == "peermem-not-loaded"
    assert answered(f"{stated}\n\nThe module was not found in the image.\n").cause == "module-not-found"


@pytest.mark.parametrize(
    "title",
    [
        "[Doc] describe what the driver container needs",
        "Feature request: load the module by itself",
        "RFC: one place for the settings of the transport",
        "Fix the registration of buffers",
        "docs: mention the module",
    ],
)
def test_a_text_that_proposes_a_change_gets_no_cause_from_its_words(title):
    body = "The root cause is that nvidia_peermem is not loaded, so the transfer fails.\n"
    assert answered(f"{title}\n\n{body}").cause is None
    assert answered(f"Transfers fail\n\n{body}").cause == "peermem-not-loaded"


def test_an_error_that_a_person_quotes_counts_as_printed():
    quoted = "I get `nvidia_peermem: module license 'Proprietary' taints kernel.` and more."
    assert not answered(f"{STORY}\n{quoted}\n").sentence.startswith("The text says")
    refused = (
        "It prints `modprobe: FATAL: Module nvidia_peermem not found in directory /lib/modules/6.8.0-50`.\n"
    )
    assert answered(f"No peermem\n{STORY}\n{refused}").cause == "module-not-found"


def test_words_about_accelerators_of_another_maker_get_no_cause():
    text = "RCCL on MI300X\n\nThe root cause was that ACS was enabled on the MI300X nodes with ROCm.\n"
    assert answered(text).cause is None
    assert answered(text.replace("RCCL", "NCCL").replace("MI300X", "H100").replace(" with ROCm", "")).cause


def test_a_level_that_somebody_advises_is_not_the_level_of_the_job():
    line = "`NCCL INFO GPU Direct RDMA Disabled for GPU ca000 / HCA 0 (distance 7 > 4)`\n"
    advised = "You may set NCCL_NET_GDR_LEVEL=PIX to keep it off.\n"
    assert answered(f"Two machines\n\n{line}\n{advised}").cause != "gdr-level-too-low"
    assert answered(f"Two machines\n\n{line}\nWe run with NCCL_NET_GDR_LEVEL=SYS.\n").cause != (
        "gdr-level-too-low"
    )
    assert answered(f"Two machines\n\n{line}\nWe run with NCCL_NET_GDR_LEVEL=PIX.\n").cause == (
        "gdr-level-too-low"
    )


# -- rivals, and what agrees -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "The module is not signed.\n\nKernel lockdown refuses it, and Secure Boot is why.\n",
        "Kernel lockdown blocks our module.\n\nIt is not signed.\n",
    ],
)
def test_a_cause_and_what_it_brings_about_are_one_in_either_order(text):
    found = answered(f"The module cannot be loaded\n\n{text}")
    assert found.cause == "lockdown-blocks-module"
    other = text.replace("not signed", "built for another kernel")
    assert answered(f"The module cannot be loaded\n\n{other}").cause is None


def test_the_deeper_of_two_causes_that_words_name_comes_first():
    assert answered("nvidia_peermem is not loaded: it was blacklisted.\n").cause == "module-blacklisted"
    doubtful = "The root cause was that nvidia_peermem is not loaded. Maybe it is blacklisted?\n"
    assert answered(doubtful).cause == "peermem-not-loaded"


def test_two_sentences_of_a_paragraph_agree_if_one_gives_the_reason():
    reason = "Transfers are staged because nvidia_peermem is not loaded."
    assert (
        answered(f"All-reduce is slow\n{STORY}\n{reason} Without it being loaded nothing helps.\n").cause
        is None
    )
    both = f"{reason} On this image nvidia_peermem is never loaded.\n"
    assert answered(f"All-reduce is slow\n{STORY}\n{both}").cause == "peermem-not-loaded"


def test_what_a_message_does_not_say_is_not_denied():
    silent = "The message does not say that the memlock limit is too low, but that is all it takes.\n"
    assert answered(f"Registration fails\n\n{silent}").cause == "memlock-limit"
    denied = "The memlock limit is not too low here.\n"
    assert answered(f"Registration fails\n\n{denied}").cause is None


@pytest.mark.parametrize(
    ("sentence", "cause"),
    [
        ("For example, when we ran into it the memlock limit was 64.", "memlock-limit"),
        ("For example, the memlock limit is 64 on many systems.", None),
        ("This is usually due to ACS being enabled on the switches.", "acs-redirect"),
        ("Usually ACS is enabled on the switches.", None),
    ],
)
def test_what_somebody_saw_or_a_symptom_usually_means_is_a_cause_and_what_is_usual_is_none(sentence, cause):
    assert answered(f"Registration of GPU memory fails\n\n{sentence}\n").cause == cause


# -- replies ---------------------------------------------------------------------------------------------

ASKED = "The run with GDR crashes; without it all is well."


@pytest.mark.parametrize(
    ("post", "cause"),
    [
        ("Could ACS be enabled on your system? Please show lspci.", "acs-redirect"),
        ("Is the nv_peer_mem module loaded?", "peermem-not-loaded"),
        ("try `sudo modprobe nvidia-peermem`", "peermem-not-loaded"),
    ],
)
@pytest.mark.parametrize(
    "byline", ["{} commented 3 days ago", "{} \u00b7 comment \u00b7 2024-01-02", "{} wrote:", ""]
)
def test_a_reply_that_confirms_makes_a_question_or_advice_the_cause(post, cause, byline):
    def thread(reply):
        posts = (ASKED, post, reply)
        names = (byline.format(name) for name in ("ann", "bob", "ann"))
        body = "".join(f"{name}\n{text}\n\n" for name, text in zip(names, posts, strict=True))
        return answered(f"Crash with GDR\n{STORY}\n{body}")

    for reply in ("Yes, this was the problem. Thank you!", "Thank you very much. It works now."):
        found = thread(reply)
        assert (found.cause, found.sureness, found.claimed) == (cause, "likely", True)
    for reply in (
        "No, it still crashes.",
        "Thanks, but it made no difference.",
        "It works on one node only.",
        "Is that really the problem?",
    ):
        assert thread(reply).cause is None


@pytest.mark.parametrize(
    ("advice", "cause"),
    [
        ("Just load the nv_peer_mem module.", "peermem-not-loaded"),
        ("You could simply load nvidia_peermem.", "peermem-not-loaded"),
        ("The nv_peer_mem module is loaded.", None),
        ("Load the nv_peer_mem module, then start the job.", None),
    ],
)
def test_advice_in_a_reply_names_a_remedy_and_what_is_in_place_does_not(advice, cause):
    text = f"GDR is used by one node only\n\nThe other one prints NET/IB/1. What differs?\n\n{advice}\n"
    assert answered(text).cause == cause


# -- a program that goes on ------------------------------------------------------------------------------

NO_VERBS = "n1:40:50 [0] NCCL INFO Failed to open libibverbs.so[.1]"
ON = "n1:40:50 [0] NCCL INFO Using network Socket"


@pytest.mark.parametrize(
    "failure",
    [
        "n1:40:50 [0] transport/p2p.cc:275 NCCL WARN Cuda failure 'peer access is not supported'",
        "RuntimeError: NCCL error: unhandled system error",
    ],
)
def test_what_a_program_goes_on_without_is_not_why_it_fails(failure):
    found = answered(f"A job fails\n{NO_VERBS}\n{ON}\n{failure}\n")
    assert found.cause is None
    assert [line.text for line in found.lines] == [failure]
    assert "verbs-library-missing" in {other.code for other in found.others}
    assert answered(f"A job on ConnectX is slow\n{NO_VERBS}\n{ON}\n").cause == "verbs-library-missing"


# -- commands that a sentence introduces -----------------------------------------------------------------


@pytest.mark.parametrize("said", ["I solved it by running:", "The fix is:", "That helped us, it works now:"])
@pytest.mark.parametrize(
    "commands",
    [
        "```\nsudo modprobe nvidia-peermem\n```",
        "root@n1:~# lsmod | grep -c peer\nroot@n1:~# modprobe nvidia-peermem",
        "> ```\n> modprobe nvidia_peermem\n> ```",
    ],
)
def test_commands_that_a_cure_introduces_name_the_cause(said, commands):
    text = f"The all-reduce crashes\n{STORY}\n{{}}\n{commands}\n"
    found = answered(text.format(said))
    assert (found.cause, found.sureness) == ("peermem-not-loaded", "likely")
    assert answered(text.format("It still crashes when I run:")).cause is None


def test_a_command_that_somebody_quotes_alone_denies_nothing():
    text = (
        "GDR is used by one node only\n\n> modprobe nvidia_peermem\n\nnvidia_peermem was not loaded there.\n"
    )
    assert answered(text).cause == "peermem-not-loaded"


@pytest.mark.parametrize(
    ("files", "cause"),
    [
        ("rdma_cm  ucm0  ucm2  uverbs0  uverbs2", "rdma-device-not-in-container"),
        ("rdma_cm", "rdma-device-not-in-container"),
        ("rdma_cm  uverbs0  uverbs1  uverbs2  uverbs3", None),
    ],
)
def test_devices_without_their_files_are_not_in_the_container(files, cause):
    listed = "# ls /sys/class/infiniband\nmlx5_0  mlx5_1  mlx5_2  mlx5_3\n"
    text = f"rdma_get_devices fails in docker\n```\n{listed}\n# ls /dev/infiniband/\n{files}\n```\n"
    assert answered(text).cause == cause


def test_a_line_about_the_version_magic_decides_also_without_its_end():
    text = "insmod fails: Exec format error\n[  360.6] x: version magic '4.18.0-"
    assert answered(text).cause == "module-wrong-kernel"


# -- what people and listings say in other forms ---------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "# GPU Direct RDMA Disabled for HCA 0\n\nSince the update of the node I see no GDRDMA in its log.\n",
        "I get error 14 when I use --use_cuda\nIt works without.\n",
        "libfoo: MR registration failed (14) for a GPU buffer\n",
    ],
)
def test_an_error_in_a_title_or_a_sentence_opens_its_causes(text):
    found = answered(text)
    assert (found.kind, found.cause, found.claimed) == ("several", None, True)
    assert found.others[0].code == "peermem-not-loaded"


def test_ibstat_pasted_alone_shows_a_port_that_is_down():
    shown = "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: {}\n"
    assert answered(shown.format("Down")).cause == "port-down"
    assert answered(shown.format("Active")).cause is None


def test_what_is_seen_after_a_change_is_a_cure_only_if_it_is_no_failure():
    text = "After the update of the node I see {} in the log.\n"
    assert answered(f"All-reduce is slow on the IB network\n\n{text.format('no GDRDMA')}").kind != "stated"


def test_a_reason_does_not_make_what_is_in_place_the_cure():
    in_place = "In my environment the nvidia_peermem module is loaded, but the check for it never passes."
    for reason in ("That's because there is no version file.", "This is due to its file, which is gone."):
        assert answered(f"NVSHMEM skips its transport\n\n{in_place} {reason}\n").cause is None
    cured = "The nvidia_peermem module is loaded at boot now. That fixed it."
    assert answered(f"NVSHMEM skips its transport\n\n{cured}\n").cause == "peermem-not-loaded"


def test_a_reason_that_a_change_confirms_is_quoted():
    said = "Two hosts stall\n\nThe switch ports had an MTU of 1500. {}\n"
    assert "MTU of 1500" in answered(said.format("Aligning them solved it for everybody.")).sentence
    assert answered(said.format("Aligning them did not help.")).kind == "nothing"


def test_a_message_about_something_else_is_followed_by_the_reason_that_a_person_found():
    line = "socketStartConnect: Connect to 10.0.0.2<33001> failed : No route to host"
    solved = answered(f"{line}\n\nfirewalld blocked the ports. After stopping it everything runs.\n")
    assert solved.kind == "elsewhere"
    assert solved.sentence.endswith("in its own words: firewalld blocked the ports.")
    guessed = answered(f"{line}\n\nMaybe firewalld blocked the ports?\n")
    assert guessed.sentence.endswith("before any RDMA.")


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("The module cannot be loaded after I enabled Secure Boot", "several"),
        ("The module does not fail any more after I enabled the other driver", "stated"),
    ],
)
def test_since_when_something_fails_is_no_reason(title, kind):
    assert (
        answered(f"{title}\n\nmodprobe: ERROR: could not insert 'nvidia': Required key not available\n").kind
        == kind
    )
