"""A measurement between two other nodes: either end may fail, and the error says which one. Here the nodes
are shells."""

import shlex
from pathlib import Path

import pytest

from gdrkit.transport import TransportError
from gdrkit.transport.measure import pair, remote
from gdrkit.transport.measure.job import MeasureEnd
from gdrkit.transport.measure.pair import CONNECTING, LISTENING, EndFailed, between
from gdrkit.transport.measure.peer import PeerTask, own_address
from tests.work import within

HERE = ["sh", "-c", remote.COMMAND]
READS = "exec 3<&0; cat <&3 >/dev/null & "
NO_ADDRESS = "198.18.0.0/15"  # RFC 2544: for benchmarks of devices, so this machine has none


def node(script):
    return ["sh", "-c", script]


def measured(listening=HERE, connecting=HERE, path="tcp", seconds=20.0, **where):
    where = {"address": "127.0.0.1", **where}
    end = MeasureEnd(device="mlx5_0" if path == "verbs" else None)
    return between((listening, connecting), path, end, 1000, timeout_s=seconds, **where)


def test_one_node_listens_and_the_other_connects():
    point = measured()

    assert point.size_bytes == 1000 and point.checked
    assert point.gb_per_s == pytest.approx(1000 / point.median_us / 1e3)


@pytest.mark.parametrize("client", ["192.0.2.9 5 127.0.0.1 22", "::1 5 ::1 22"])
def test_the_node_listens_where_ssh_reached_it(client, monkeypatch):
    monkeypatch.setenv("SSH_CONNECTION", client)
    listened = []
    monkeypatch.setattr(
        pair, "_listens_on", lambda line, *where: listened.append(line) or _listens_on(line, *where)
    )
    measured(address="")

    assert f'["{client.split()[2]}", ' in listened[0]


_listens_on = pair._listens_on


def test_an_address_may_be_a_name_which_this_machine_resolves():
    assert measured(address="localhost").checked
    with pytest.raises(TransportError, match=r"^no address for nowhere\.invalid: "):
        measured(address="nowhere.invalid")


def test_in_a_network_the_node_listens_on_its_own_address():
    assert own_address("127.0.0.0/8").startswith("127.") and own_address("::1/128") == "::1"
    with pytest.raises(
        TransportError, match=rf"the listening node: this node has no address in {NO_ADDRESS}"
    ):
        measured(network=NO_ADDRESS)


def test_the_key_is_on_no_command_line_and_in_no_environment(monkeypatch):
    """As others see both processes, one of which has the key by then."""
    children, seen = [], []
    monkeypatch.setattr(pair, "generate_key", lambda: b"k" * 32)

    def look(*where):
        for child in children:
            seen.extend(Path(f"/proc/{child.pid}/{what}").read_bytes() for what in ("cmdline", "environ"))
        return _listens_on(*where)

    monkeypatch.setattr(pair, "_listens_on", look)
    measured(started=children.append)

    assert len(seen) == 4 and all(seen)
    assert not [text for text in seen if b"k" * 32 in text or (b"k" * 32).hex().encode() in text]


@pytest.mark.parametrize(
    ("end", "script", "code", "line"),
    [
        (LISTENING, "echo 'ssh: no route' >&2; exit 255", 255, "ssh: no route"),
        (CONNECTING, "echo 'ssh: no route' >&2; exit 255", 255, "ssh: no route"),
        (LISTENING, "exit 127", 127, "exit code 127"),
        (CONNECTING, "exec sleep 60", None, "^it did not answer in time$"),
        (LISTENING, f"{READS} exec cat /dev/zero", None, "something else"),
    ],
    ids=["refused", "refused there", "no program", "hangs", "without end"],
)
def test_the_end_that_does_not_take_part_is_named(end, script, code, line):
    ends = {"connecting": node(script)} if end else {"listening": node(script)}
    with within(20), pytest.raises(EndFailed, match=line) as error:
        measured(**ends, seconds=6.0 if code else 2.0)

    assert (error.value.end, error.value.code) == (end, code)


def test_an_end_that_dies_while_it_measures_is_named():
    """What the shell prints is not of our program: the command below it was killed."""
    killed = node(f"exec 3<&0; timeout --signal=KILL 1 sh -c {shlex.quote(remote.COMMAND)} <&3; exit 255")
    ends = HERE, killed
    with within(15), pytest.raises(EndFailed) as error:
        between(ends, "tcp", MeasureEnd(), 1 << 28, address="127.0.0.1", timeout_s=20)

    assert (error.value.end, error.value.code) == (CONNECTING, 255)


def test_a_path_that_is_not_there_is_an_error_of_the_pair():
    with pytest.raises(
        TransportError, match=r"^the listening node: verbs: .*the connecting node: "
    ) as error:
        measured(path="verbs")

    assert not isinstance(error.value, EndFailed)


@pytest.mark.parametrize(
    "line",
    ["", "[]", '["127.0.0.1", 0]', '["127.0.0.1", 70000]', '["127.0.0.1", "22"]', "[" * 400, '["x", 22]',
     '["192.0.2.1", 22]'],
)  # fmt: skip
def test_a_node_cannot_send_the_other_one_elsewhere(line):
    with pytest.raises(EndFailed, match="something else"):
        _listens_on(line, "", "127.0.0.0/8")
    assert _listens_on('["192.0.2.1", 22]', "127.0.0.1", "") == ("127.0.0.1", 22)


@pytest.mark.parametrize(
    "line",
    ["", "7", "[[7, 1, 1, 1, 1, 1, true]]", "[[1000, 1, 1, 1, NaN, 1, true]]",
     '[["1000", 1, 1, 1, 1, 1, true]]', "[[1000, 1, 1, 1, -5, 1, true]]",
     "[[1000, 1, 1, 1, 1e999, 1, true]]", "[[1000, 1, 1]]", '[[1000, 1, 1, 1, "x", 1, true]]',
     f"[[1000, 1, 1, 1, {'9' * 400}, 1, true]]", "[null]"],
)  # fmt: skip
def test_what_is_no_result_is_refused(line):
    with pytest.raises(EndFailed, match="something else"):
        pair._point(line, 1000)


def test_a_node_ends_with_the_command_that_started_it():
    """Also while it waits for its peer, so that nothing is left behind."""
    with remote.process(HERE, 5.0) as child:
        remote.introduce(child, 20.0)
        task = PeerTask("127.0.0.1", 0, "00" * 32, "tcp", [1000], wait_s=600.0, pair="listen")
        remote.tell(child, task.line(), 20.0)
        assert remote.line_of(child, 20.0)
        assert child.poll() is None
        child.stdin.close()

        assert child.wait(10) == 1
