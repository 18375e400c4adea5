"""Lines of a pasted text: what printed each, on which machine, after which command."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.explain.lines.blocks import blocks, command_of
from gdrkit.explain.lines.line import LINE_CHARACTERS
from gdrkit.explain.lines.transcript import machine_names, read


def kinds(text: str) -> list[str]:
    return [line.kind for line in read(text)]


def hosts(text: str) -> dict[int, str]:
    return {line.number: line.host for line in read(text)}


ERROR = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument"


@pytest.mark.parametrize(
    "stamp",
    [
        "",
        "[   12.345678] ",
        "<3>[   12.345678] ",
        "kern  :err   : [   12.345678] ",
        "[   12.345678][  T1234] ",
        "[Thu Nov 20 17:55:01 2026] ",
        "Nov 20 17:55:01 node1 kernel: ",
        "Nov  2 07:05:01 node1 kernel: [   12.345678] ",
        "2026-11-20T17:55:01.123456+01:00 node1 kernel: ",
        "2026-11-20T17:55:01.123456789Z ",
        "2026-11-20 17:55:01,123 ",
        "I1120 17:55:01.123456       1 main.go:12] ",
        "[1,0]<stdout>:",
        "(RayWorker pid=123, ip=10.0.0.1) ",
        "0: ",
        "driver-1  | ",
        "[pod/driver-x/peermem] ",
    ],
)
def test_a_line_is_recognized_after_any_time_stamp_or_tag(stamp):
    assert kinds(f"{stamp}nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)\nx") == [
        "machine",
        "prose",
    ]


@pytest.mark.parametrize(
    "prompt",
    [
        "$ ", "# ", "root@node1:~# ", "[user@node1 dir]$ ", "[user@ node1 ~]$ ", "(base) user@node1:/tmp$ ",
        "user@node1 /tmp> ", "`$ ", "% ", "node1:~$ ", "node1 $ ", "node1# ", "gpu:/tmp# ", "[node1 ~]# ",
    ],
)  # fmt: skip
def test_a_command_is_recognized_after_any_prompt(prompt):
    (typed, output) = read(f"{prompt}sudo modprobe nvidia_peermem\n{ERROR}")

    assert (typed.kind, typed.text) == ("typed", "sudo modprobe nvidia_peermem")
    assert (output.kind, output.command, output.typed_at) == ("machine", "sudo modprobe nvidia_peermem", 1)


@pytest.mark.parametrize(
    "text", ["about 100 $ dmesg", "it costs $ modprobe", "node1 $ per hour", "see mlx5_0: # of ports"]
)
def test_a_sign_after_another_word_is_no_prompt(text):
    assert kinds(text) == ["prose"]


def test_a_known_program_is_a_command_without_a_prompt_and_a_sentence_is_not():
    assert kinds("modinfo nvidia-peermem") == ["typed"]
    assert kinds("dmesg shows nothing about it") == ["prose"]
    assert kinds("cat is not what I have.") == ["prose"]


def test_typographic_characters_become_ascii():
    (line,) = read("modprobe: ERROR: could not insert \u2018nvidia_peermem\u2019: Invalid\u00a0argument")

    assert line.kind == "machine"
    assert line.text == ERROR


def test_colours_annotations_and_nul_bytes_are_removed():
    (line,) = read("\x1b[31mProduct Name : NVIDIA\x00 GB10\x1b[0m   \u2190 look here")

    assert line.text == "Product Name : NVIDIA GB10"


def test_line_numbers_are_those_of_an_editor():
    lines = read("one\x0bstill one\u2028and still\n\n" + ERROR + "\r\n")

    assert [line.number for line in lines] == [1, 3]


@pytest.mark.parametrize(
    "text",
    [
        f"You may see:\n\n> {ERROR}",
        f"> You may see:\n> {ERROR}\n\nDo you?",
        f"> The error was: {ERROR}\n\nDo you see it?",
        f"If you see this error then sign the module:\n```\n{ERROR}\n```",
        f"You may see:\n\n{ERROR}",
        f"Expected output on a stub:\n{ERROR}",
        f"For example:\n```\n$ modprobe nvidia_peermem\n{ERROR}\n```",
    ],
)
def test_quoted_advice_is_not_evidence(text):
    assert "machine" not in kinds(text)


def test_advice_ends_with_the_next_sentence():
    assert kinds(f"If you see this, worry:\n{ERROR}\nWhat I got was this:\n{ERROR}") == [
        "prose",
        "quoted",
        "prose",
        "machine",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "there was no 'Key was rejected by service' anywhere",
        "I get modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument here",
        "nvidia_peermem does not load",
        "The error was: modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument",
        "# NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
    ],
)
def test_a_sentence_or_a_title_that_quotes_a_program_is_prose(text):
    assert kinds(text) == ["prose"]


def test_an_output_pasted_as_a_comment_below_its_command_is_evidence():
    typed, output = read("./ib_write_bw -d mlx5_0 --use_cuda=0\n# Couldn't allocate MR with error=14")

    assert (typed.kind, output.kind, output.text) == (
        "typed",
        "machine",
        "Couldn't allocate MR with error=14",
    )


def test_an_output_ends_with_the_sentence_after_it():
    text = (
        "$ uname -r\n6.14.0-1013-nvidia\nwhich is the kernel that they ship with it.\nSecureBoot enabled\n"
    )

    assert [(line.kind, line.command) for line in read(text)] == [
        ("typed", "uname -r"),
        ("machine", "uname -r"),
        ("prose", ""),
        ("machine", ""),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "2026/02/06 06:23:37 no periodic update interval is set, use the default interval.",
        "E20260801 12:30:19.433391 41177 some.cpp:13] it is not what we want.",
        "  Warning  Failed   12m   default-scheduler   0/4 nodes are available: it is not found.",
    ],
)
def test_a_line_of_a_log_and_a_row_of_a_table_belong_to_the_command_before_them(line: str):
    assert [found.kind for found in read(f"$ kubectl logs pod\n{line}\n")] == ["typed", "machine"]
    sentence = line.rpartition("  ")[2].rpartition("] ")[2].rpartition(":37 ")[2]
    assert [found.kind for found in read(f"$ kubectl logs pod\n{sentence}\n")] == ["typed", "prose"]


def test_a_last_line_without_an_end_and_an_overlong_line_are_marked_as_cut():
    whole, cut = read(f"{ERROR}\n{ERROR}")
    assert (whole.cut, cut.cut) == (False, True)
    (long, _) = read("NVRM: " + "x" * 2 * LINE_CHARACTERS + "\nend")
    assert long.cut
    assert len(long.text) <= LINE_CHARACTERS


# -- machines and authors ------------------------------------------------------------------------------


def test_prompts_tell_two_machines_apart():
    text = f"root@node1:~# modprobe nvidia_peermem\n{ERROR}\nroot@node2:~# lsmod\nnvidia_peermem 16384 0\n"

    assert hosts(text) == {1: "node1", 2: "node1", 3: "node2", 4: "node2"}


def test_a_prompt_may_be_the_name_of_a_host_alone():
    assert hosts("node1$ uname -r\n6.8.0\ngpu-2# uname -r\n6.9.0\n") == {
        1: "node1",
        2: "node1",
        3: "gpu-2",
        4: "gpu-2",
    }


@pytest.mark.parametrize("prompt", ["host$", "root@host:~#", "[node ~]$", "server:~$"])
def test_a_word_for_any_machine_before_a_prompt_names_none(prompt: str):
    assert hosts(f"{prompt} uname -r\n6.8.0\n") == {1: "", 2: ""}


@pytest.mark.parametrize("line", ["It costs 5$ per hour", "US$ 20 is what it costs", "c# is a language"])
def test_a_sign_within_a_sentence_is_no_prompt(line: str):
    assert kinds(line) == ["prose"]


def test_the_only_machine_named_by_prompts_owns_every_line():
    assert hosts(f"{ERROR}\n\nroot@node1.example.com:~# uname -r\n6.8.0\n") == {
        1: "node1",
        3: "node1",
        4: "node1",
    }


def test_hosts_in_an_nccl_log_are_separate_machines():
    text = (
        "n1:10:11 [0] NCCL INFO Using network IB\nn2:20:21 [0] NCCL INFO Using network IB\nnvidia 16384 0\n"
    )

    assert hosts(text) == {1: "n1", 2: "n2", 3: ""}


def test_a_syslog_in_a_conversation_names_only_its_own_lines():
    text = f"I see this:\n{ERROR}\nand on a Dell this:\nNov 23 12:02:08 texas kernel: NVRM: something\n"

    assert hosts(text)[2] == ""
    assert hosts(text)[4] == "texas"


@pytest.mark.parametrize(
    "heading",
    [
        "## Node 2",
        "**node2:**",
        "=== gpu02 ===",
        "Second node:",
        "My second node (gpu02) says:",
        "On gpu02:",
    ],
)
def test_headings_and_introductions_name_machines(heading):
    text = f"{ERROR}\n\n{heading}\n\n{ERROR}\n"

    first, *_, second = (line.host for line in read(text))
    assert first == ""
    assert second != ""


def test_a_heading_applies_until_the_next_one_of_its_level():
    text = f"## Second node\n### Secure Boot\nSecureBoot enabled\n## What the source says\n{ERROR}\n"

    assert [line.host for line in read(text) if line.kind == "machine"] == ["second node", ""]


@pytest.mark.parametrize("title", ["## H100", "### Step 2", "## Layer 3", "# CUDA12", "## Ubuntu24"])
def test_titles_with_numbers_are_not_machines(title):
    assert machine_names(read(f"{title}\n{ERROR}\n")) == ("",)


def test_the_name_of_an_author_is_no_machine():
    posts = ("ann \u00b7 description \u00b7 2026", "bob \u00b7 comment \u00b7 2026", "1 Like")
    lines = read("".join(f"{post}\n{ERROR}\n" for post in posts))

    assert [line.host for line in lines if line.kind == "machine"] == ["", "", ""]
    assert [line.author for line in lines if line.kind == "machine"] == ["ann", "bob", "post 4"]


@pytest.mark.parametrize(
    ("command", "host"),
    [
        ("ssh gpu07 lsmod", "gpu07"),
        ("kubectl exec -n gpu-operator driver-abc -- lsmod", "driver-abc"),
        ("kubectl exec -it trainer-0 -- lsmod", "trainer-0"),
        ("kubectl exec trainer-0 -it -c main -- lsmod", "trainer-0"),
        ("oc exec pod/trainer-0 -- lsmod", "trainer-0"),
        ("kubectl exec deploy/trainer -- lsmod", "trainer"),
        ("kubectl -n gpu-operator exec ds/nvidia-driver-daemonset -c nvidia-driver-ctr -- lsmod", ""),
        ("kubectl logs -l app=trainer --prefix", ""),
        ("talosctl -n 10.0.0.7 dmesg", "10.0.0.7"),
    ],
)
def test_a_remote_command_shows_the_remote_machine(command, host):
    _, output = read(f"$ {command}\nnvidia_peermem 16384 0\n")

    assert output.host == host


@pytest.mark.parametrize(
    ("command", "host"),
    [
        ("srun -w cn110 dmesg", "cn110"),
        ("srun -p gpu --nodelist cn110.cluster dmesg", "cn110"),
        ("sudo srun --nodelist=cn110 -N1 --pty bash -c 'dmesg | grep -w Xid'", "cn110"),
        ("pdsh -N -w cn110 dmesg | grep -w Xid", "cn110"),
        ("clush -Nw cn110 dmesg", "cn110"),
        ("ansible -i inv1 cn110 -m shell -a dmesg", "cn110"),
        ("xdsh cn110 dmesg", "cn110"),
        ("kubectl exec nvidia-driver-daemonset-x7k2p -- dmesg", "nvidia-driver-daemonset-x7k2p"),
        ("kubectl debug -it --image busybox node/cn110 -- dmesg", "cn110"),
        ("srun -w cn[110-112] dmesg", ""),
        ("srun -w cn110,cn111 dmesg", ""),
        ("srun -p gpu dmesg", ""),
        ("kubectl logs -l app=trainer", ""),
        ("ansible gpus -m shell -a dmesg", ""),
        ("dmesg | tail", "login1"),
        ("scontrol show node cn110 >/dev/null; dmesg", "login1"),
        ("grep -w srun notes; dmesg", "login1"),
    ],
)
def test_a_command_that_runs_elsewhere_shows_no_machine_of_the_prompt(command, host):
    typed, *output = read(f"[root@login1 ~]# {command}\n{ERROR}\n[root@login1 ~]# \n{ERROR}\n")

    assert (typed.host, output[0].host, output[-1].host) == (host, host, "login1")


@pytest.mark.parametrize("prompt", ["sh-5.1# ", "bash-5.2$ ", "$ "])
@pytest.mark.parametrize(
    "command",
    ["oc debug node/{}", "kubectl debug node/{} -it --image=busybox", "kubectl exec -it {} -- /bin/bash"],
)
def test_a_shell_on_a_node_is_of_the_node_until_it_is_left(prompt: str, command: str):
    visit = f"$ {command}\n{prompt}chroot /host\n{prompt}lsmod\n{ERROR}\n"
    text = f"{visit.format('gpu-w1')}{visit.format('gpu-w2')}{prompt}exit\n[ann@bastion ~]$ lsmod\n{ERROR}\n"

    assert [line.host for line in read(text) if line.kind == "machine"] == ["gpu-w1", "gpu-w2", "bastion"]


def test_who_leaves_such_a_shell_is_where_he_was():
    text = f"[ann@bastion ~]$ oc debug node/gpu-w1\nsh-5.1# lsmod\n{ERROR}\nsh-5.1# exit\n$ lsmod\n{ERROR}\n"

    assert [line.host for line in read(text) if line.kind == "machine"] == ["gpu-w1", "bastion"]


def test_the_version_of_a_shell_is_no_machine():
    assert machine_names(read(f"sh-5.1# lsmod\n{ERROR}\n")) == ("",)
    assert machine_names(read(f"sh-gpu5:~# lsmod\n{ERROR}\n")) == ("sh-gpu5",)


# -- outputs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "argv", "filtered"),
    [
        ("sudo /usr/sbin/modprobe nvidia_peermem", ("modprobe", "nvidia_peermem"), False),
        ("dmesg | grep -i nvidia", ("dmesg",), True),
        ("dmesg 2>&1 | cat", ("dmesg",), False),
        ("LANG=C lsmod | grep peermem | sort", ("lsmod",), True),
        ("kubectl exec -it pod-1 -- modinfo -F depends x", ("modinfo", "-F", "depends", "x"), False),
        ("ssh -p 2222 root@gpu01 'uname -r'", ("uname", "-r"), False),
        ("uname -r && cat /etc/os-release", ("uname", "-r"), False),
    ],
)  # fmt: skip
def test_a_command_line_is_split(line, argv, filtered):
    assert command_of(line) == (argv, filtered)


def test_an_empty_output_counts_if_something_follows():
    empty, last = blocks(read("$ modinfo -F depends nvidia-peermem\n\n$ uname -r"))

    assert (empty.lines, empty.ended) == ((), True)
    assert last.ended is False


@given(st.text() | st.text(alphabet="$#>`[]: \nabm0'-\u2018|"))
def test_any_text_has_lines_with_ascending_numbers(text):
    numbers = [line.number for line in read(text)]

    assert numbers == sorted(numbers)
    assert len(machine_names(read(text))) >= 1
