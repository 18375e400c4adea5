"""What runtimes, journals, launchers and web pages put around a line is taken off, and nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.explain.lines.transcript import read
from gdrkit.explain.lines.wrappers import MOST_WRAPPERS, unwrap
from gdrkit.explain.outputs.pasted_host import PastedHost
from gdrkit.facts import kernel_log
from gdrkit.node import Node
from tests.explain.explaining import explained

ERROR = "modprobe: ERROR: could not insert 'nvidia_peermem': Exec format error"
NOT_LOADED = "neither nv_peer_mem, or nvidia_peermem detected. Skipping transport."
KERNEL = "nvidia_peermem: version magic '6.8.0-90 SMP' should be '6.8.0-94 SMP'"


@pytest.mark.parametrize(
    "wrapped",
    [
        "2026-03-02T08:15:30.123456789Z stderr F {}",
        "2026-03-02T08:15:30.123456789+01:00 stdout F {}",
        "2026-03-02T08:15:30.123456789Z {}",
        "[rank3]: {}",
        "[default1]:{}",
        "[1,2]<stderr>: {}",
        "[prterun-head-77@1,2]<stderr>: {}",
        "(EngineCore_0 pid=4242) {}",
        "(pid=4242, ip=10.0.0.9) {}",
        "driver-4f2xq nvidia-peermem-ctr {}",
        "worker-0 \u203a {}",
        "gdr-test-1  | {}",
        "[pod/driver-4f2xq/ctr] {}",
        "INFO 03-02 08:15:30 [worker.py:63] {}",
        "ERROR:root:{}",
        "2026-03-02 08:15:30,123 - {}",
        "17: {}",
        "  17 | {}",
        "17\t{}",
        "#12 3.456 {}",
        "+ {}",
        "| {} |",
        "| `{}` |",
        "<code>{}</code>",
        "<p>{}<br>",
        "\\x1b[31m{}\\x1b[0m",
        "^[[31m{}^[[0m",
        "2026-03-02T08:15:30.123456789Z stderr F [rank3]: (Worker pid=7) {}",
    ],
)
@pytest.mark.parametrize("line", [ERROR, NOT_LOADED])
def test_a_wrapped_line_is_output(wrapped, line):
    (found,) = read(wrapped.format(line) + "\n")

    assert found.kind == "machine"
    assert line in found.text


@pytest.mark.parametrize("key", ["log", "message", "msg", "textPayload", "MESSAGE", "line", "LogMessage"])
def test_a_line_in_json_is_the_text_that_was_logged(key):
    assert unwrap(json.dumps({key: ERROR + "\n", "stream": "stderr"})).text == ERROR


def test_a_json_value_that_is_no_log_stays_as_it_is():
    assert unwrap('{"log": ["x"]}').text == '{"log": ["x"]}'
    assert unwrap('{"name": "nvidia_peermem: x"}').text == '{"name": "nvidia_peermem: x"}'


def test_entities_are_decoded_once():
    assert unwrap("nvidia &lt;b&gt; &quot;x&quot; &amp;lt;").text == 'nvidia <b> "x" &lt;'


@pytest.mark.parametrize(
    ("wrapped", "host"),
    [
        (f"10.0.0.7: kern: warning: [2026-03-02T08:15:30.123456789Z]: {KERNEL}", "10.0.0.7"),
        (f"Mon 2026-03-02 08:15:30 CET gpu01 kernel: {KERNEL}", "gpu01"),
        (f"1772439330.123456 gpu01 kernel: {KERNEL}", "gpu01"),
        (f"2026-03-02T08:15:30+0100 gpu01 kernel: {KERNEL}", "gpu01"),
        (f"Mar 02 08:15:30 gpu01 kernel: {KERNEL}", "gpu01"),
        (f"[   30.123456] gpu01 kernel: {KERNEL}", "gpu01"),
    ],
)
def test_every_form_of_a_journal_is_a_kernel_log_of_its_machine(wrapped, host):
    (machine,) = PastedHost(wrapped + "\n").machines()

    assert machine.machine == host
    assert [line.text for line in kernel_log.lines(Node(machine)).lines] == [KERNEL]


def test_a_label_of_pdsh_names_the_machine():
    found = read(f"gpu17: {ERROR}\ngpu18: {ERROR}\n")

    assert [line.host for line in found] == ["gpu17", "gpu18"]


@pytest.mark.parametrize("label", ["mlx5_0", "ib0", "eth1", "GPU 3", "rank 2", "nvidia0"])
def test_a_device_before_a_message_is_no_machine(label):
    (found,) = read(f"{label}: {ERROR}\n")

    assert found.host == ""


@pytest.mark.parametrize(
    "frame",
    [
        "h1:10:11 [0] NCCL INFO ",
        "<cluster_name>:10:11 [0] NCCL INFO ",
        ":10:11 [0] NCCL INFO ",
        "[0] NCCL INFO ",
        "NCCL INFO ",
        "transport/net_ib.cc:812 NCCL WARN ",
        "h1:10:11 [0] transport/net_ib.cc:812 NCCL WARN ",
        "h1:10:11 [0] transport/net_ib.cc:812 (ncclIbTest) NCCL WARN ",
    ],
)
def test_every_frame_of_nccl_is_output(frame):
    (found,) = read(frame + "NET/IB : No device found.\n")

    assert found.kind == "machine"


@pytest.mark.parametrize(
    "line",
    [
        "Issue: neither nv_peer_mem, or nvidia_peermem detected. Skipping transport.",
        "We got neither nv_peer_mem, or nvidia_peermem detected. Skipping transport. after an update",
        "Note that [GPU 0] Peer GPU 8 is not accessible, exiting ... was printed",
        "Unable to initialize any transports. returning error is what I see",
        "| error | meaning |",
    ],
)
def test_a_sentence_about_a_message_is_prose(line):
    (found,) = read(line + "\n")

    assert found.kind == "prose"


def test_in_a_code_block_any_text_may_precede_a_message():
    (found,) = read(f"```\nwhat we saw once: {NOT_LOADED}\n```\n")

    assert found.kind == "machine"


def test_a_text_that_is_quoted_as_a_whole_is_a_paste():
    assert [line.kind for line in read(f"> $ modprobe nvidia_peermem\n> {ERROR}\n")] == ["typed", "machine"]
    assert [line.kind for line in read(f"> > {ERROR}\n> > {ERROR}\n")] == ["machine", "machine"]


@pytest.mark.parametrize("mark", ["> ", ">> ", "> > ", "| "])
def test_an_output_in_a_quotation_is_one_and_a_sentence_in_it_is_none(mark: str):
    quoted = f"{mark}$ modprobe nvidia_peermem\n{mark}{ERROR}\n{mark}I am lost, and have a GeForce.\n"
    for after in ("\nWhat is that?\n", "What is that?\n"):
        found = read(f"{quoted}{after}")
        assert [line.kind for line in found] == ["typed", "machine", "quoted", "prose"]
        assert (found[1].text, found[1].command) == (ERROR, "modprobe nvidia_peermem")


def test_a_code_block_in_a_quotation_ends_with_it():
    found = read("> ```\n> mytool: it broke\n\nmytool: is that it?\n> it broke\n")
    assert [line.kind for line in found] == ["shown", "prose", "quoted"]


def test_bars_of_a_table_or_of_a_single_line_quote_nothing():
    row = "|   0  NVIDIA L40S     On | 00000000:17:00.0 Off |  0 |"
    assert next(line.text for line in read(f"{row}\n{row.replace('17', '18')}\n")) == row
    assert [line.kind for line in read("Hello.\n| it is one line of prose\n")] == ["prose", "prose"]


LOADED = "$ lsmod | grep peermem\nnvidia_peermem  16384  0\n"
UNLOADED = "> $ lsmod | grep peermem\n> $ uname -r\n> 6.8.0-90-generic\n"


def test_a_quoted_output_is_of_the_same_machine_unless_the_two_contradict_each_other():
    quoted = f"> $ uname -r\n> 6.8.0-90-generic\n\nHere it is:\n\n{LOADED}"
    assert len(explained(quoted).machines) == 1
    for text in (f"{UNLOADED}\nHere it is:\n\n{LOADED}", f"{LOADED}\nYou had:\n\n{UNLOADED}"):
        names = [machine.name for machine in explained(text).machines]
        assert sorted(names) == ["", "a quoted post's machine"]


@pytest.mark.parametrize("error", ["Ungültige Adresse", "Mauvaise adresse", "错误的地址", "잘못된 주소"])
def test_an_error_in_another_language_is_quoted_as_it_stands(error):
    (machine,) = explained(f"h1:1:2 [0] NCCL WARN Call to ibv_reg_mr failed with error {error}\n").machines

    assert error in machine.open[0].text
    assert "peermem-not-loaded" in machine.open[0].codes


def test_more_wrappers_than_anybody_has_are_left():
    text = "[rank1]: " * (MOST_WRAPPERS + 1) + "x y"

    assert unwrap(text).text == text


@given(st.text() | st.text(alphabet='{}"[]:|&;#<>/0123456789TZ.- abcINFO\\'))
def test_any_line_can_be_unwrapped(text):
    assert isinstance(unwrap(text).text, str)


@pytest.mark.parametrize("bar", ["\N{BOX DRAWINGS LIGHT VERTICAL}", "\N{BOX DRAWINGS DOUBLE VERTICAL}"])
def test_a_box_around_a_log_is_no_part_of_its_lines(bar: str):
    """As k9s draws it; the near miss is a tree, of which the bar at the left is a part."""
    message = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument"
    boxed = "".join(f"{bar} {line:<90}{bar}\n" for line in (message, "$ uname -r", "6.8.0-52-generic"))

    assert [(line.text, line.kind) for line in read(boxed)] == [
        (message, "machine"), ("uname -r", "typed"), ("6.8.0-52-generic", "machine")
    ]  # fmt: skip
    assert [line.text for line in read(f"{bar}   {bar}-- lib.so\n")] == [f"{bar}   {bar}-- lib.so"]
