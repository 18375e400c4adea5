"""The path of bytes, judged from readings of transfers on two H200s, and from variations of them."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.transport.proof.evidence import CounterReading, MemorySearch, TrafficWindow, Trial
from gdrkit.transport.proof.proof import judge
from gdrkit.transport.proof.table import REGISTRATION_COUNTERS, possible_paths

RUNS = json.loads((Path(__file__).parent / "proof_h200.json").read_text())
"""Ten runs, driver 580.159.04: raw readings before and after each window."""
MIB, GIB = 1 << 20, 1 << 30
CLAIMS = {
    ("pair", "peer"): "GPU to GPU over NVLink",
    ("pair", "shared"): "staged through host memory",
    ("pair", "tcp"): "TCP, staged through host memory at both ends",
    ("loopback", "peer"): "within the memory of one GPU",
    ("loopback", "shared"): "staged through host memory",
    ("loopback", "tcp"): "TCP, staged through host memory at both ends",
}
WRAPS = {"pcie-out": 1 << 32, "pcie-in": 1 << 32}


def trial(saved):
    windows = tuple(
        TrafficWindow(
            window["bytes"],
            window["seconds"],
            tuple(
                CounterReading(name, *values, WRAPS.get(name, 0)) for name, values in window["read"].items()
            ),
        )
        for window in saved["windows"]
    )
    rest = {key: value for key, value in saved.items() if key not in ("windows", "search")}
    return Trial(**rest, windows=windows, search=MemorySearch(**saved["search"]))


def real(path, run=0):
    return trial(next(it for it in RUNS[run]["trials"] if it["path"] == path))


def changed(what, name, moved, idle=0, **others):
    """The same trial, except that a counter moved by that share of N, and by `idle` bytes per second."""

    def reading(window):
        count = int(moved * window.bytes_moved + idle * window.seconds)
        return msgspec.structs.replace(CounterReading(name, 1000, 1000 + count), **others)

    windows = tuple(
        TrafficWindow(
            window.bytes_moved,
            window.seconds,
            (*(it for it in window.readings if it.counter != name), reading(window)),
        )
        for window in what.windows
    )
    return msgspec.structs.replace(what, windows=windows)


def without(what, *names):
    """The same trial, except that these counters could not be read."""
    for name in names:
        what = changed(what, name, 0, before=None, after=None, unreadable="not supported")
    return what


@pytest.mark.parametrize(
    "kind, saved, control",
    [(run["kind"], saved, run["control"]) for run in RUNS for saved in run["trials"]],
    ids=[f"{number}-{saved['path']}" for number, run in enumerate(RUNS) for saved in run["trials"]],
)
def test_real_runs_are_distinguished(kind, saved, control):
    proof = judge(trial(saved), trial(control))
    assert proof.proven and proof.confidence == "high"
    assert proof.claim == CLAIMS[kind, saved["path"]]
    assert proof.direct is (saved["path"] == "peer")
    assert proof.decided_by


def test_a_control_run_is_host_memory():
    proof = judge(trial(RUNS[0]["control"]))
    assert proof.path == "host" and proof.direct is None


def test_neither_the_requested_path_nor_speed_counts():
    staged = real("shared")
    fast = tuple(
        msgspec.structs.replace(window, seconds=window.bytes_moved / 400e9 or window.seconds)
        for window in staged.windows
    )
    proof = judge(msgspec.structs.replace(staged, path="peer", windows=fast))
    assert proof.path == "staged" and proof.direct is False


def test_bytes_found_in_host_memory_did_not_only_use_nvlink():
    """NVLink moved by exactly our bytes, and they are in host memory: no path fits both."""
    staged = real("shared")
    disturbed = changed(changed(staged, "nvlink-out", 1.0), "nvlink-in", 1.0)
    proof = judge(disturbed)
    assert not proof.proven and "contradict" in proof.claim


@pytest.mark.parametrize("path", ["peer", "shared", "tcp"])
def test_without_readings_nothing_is_claimed(path):
    blind = msgspec.structs.replace(
        without(real(path), "nvlink-out", "nvlink-in", "pcie-out", "pcie-in", "loopback"), search=None
    )
    proof = judge(blind)
    assert not proof.proven and proof.confidence == "none" and len(proof.open_paths) == 5


def test_without_nvlink_counters_a_direct_transfer_is_not_proven():
    proof = judge(without(real("peer"), "nvlink-out", "nvlink-in"))
    assert not proof.proven and proof.claim == (
        "inconclusive: only GPU to GPU over NVLink remains, but is not shown: nvlink-out: not supported; "
        "nvlink-in: not supported"
    )


def test_without_nvlink_counters_a_staged_transfer_is_still_found_in_host_memory():
    proof = judge(without(real("shared"), "nvlink-out", "nvlink-in"))
    assert proof.path == "staged" and proof.confidence == "medium"


def test_pcie_counters_cannot_distinguish_direct_from_bounced():
    """NVLink still, PCIe moved, the bytes not in the receiver: the same as when the driver bounces them."""
    bounced = msgspec.structs.replace(real("shared"), search=MemorySearch(0, 300_000_000))
    proof = judge(bounced)
    assert not proof.proven
    assert proof.open_paths == (
        "GPU to GPU over PCIe",
        "GPU to GPU over PCIe, bounced by the driver through its own host memory",
    )


def test_unreadable_memory_does_not_count_as_memory_without_the_bytes():
    one_gpu = trial(next(it for it in RUNS[1]["trials"] if it["path"] == "peer"))
    assert judge(one_gpu).path == "one-gpu"
    gaps = judge(msgspec.structs.replace(one_gpu, search=MemorySearch(0, 300_000_000, unread_bytes=4096)))
    assert not gaps.proven and "4096 bytes" in gaps.claim
    refused = msgspec.structs.replace(
        one_gpu, search=MemorySearch(0, 0, unreadable="Operation not permitted")
    )
    assert "Operation not permitted" in judge(refused).claim


def test_a_counter_that_wraps_once_is_still_usable():
    tcp = changed(real("tcp"), "pcie-out", 0)
    wrapped = tuple(
        TrafficWindow(
            window.bytes_moved,
            window.seconds,
            (
                *(it for it in window.readings if it.counter != "pcie-out"),
                CounterReading(
                    "pcie-out", (1 << 32) - 5, (window.bytes_moved - 5) % (1 << 32), wraps_at=1 << 32
                ),
            ),
        )
        for window in tcp.windows
        if window.bytes_moved
    )
    proof = judge(msgspec.structs.replace(tcp, windows=wrapped))
    assert proof.confidence == "high" and any("pcie-out: 1.00 N" in words for words in proof.supported_by)


def test_a_counter_that_wraps_too_soon_or_goes_backwards_is_ignored():
    signal = {it.name: it for it in judge(changed(real("tcp"), "pcie-out", 1.0, wraps_at=GIB)).signals}
    assert signal["pcie-out"].did == "unknown" and "too soon" in signal["pcie-out"].words
    signal = {it.name: it for it in judge(changed(real("peer"), "nvlink-out", 0, after=3)).signals}
    assert signal["nvlink-out"].words.count("went backwards") == 2


def with_nvlink(window: TrafficWindow, moved: int) -> TrafficWindow:
    """The same window, in which NVLink carried `moved` bytes each way."""
    others = (it for it in window.readings if not it.counter.startswith("nvlink"))
    nvlink = (CounterReading(name, 0, moved) for name in ("nvlink-out", "nvlink-in"))
    return TrafficWindow(window.bytes_moved, window.seconds, (*others, *nvlink))


def test_another_jobs_traffic_makes_a_counter_unusable_not_wrong():
    """Another job uses NVLink: by chance as many bytes as ours during our rounds, and as many when we are
    idle.
    """
    staged = msgspec.structs.replace(real("shared"), search=None)
    windows = tuple(with_nvlink(window, window.bytes_moved or GIB) for window in staged.windows)
    proof = judge(msgspec.structs.replace(staged, windows=windows))
    assert not proof.proven
    assert all("other traffic" in it.words for it in proof.signals if it.name.startswith("nvlink"))
    # An idle window shows it. Without one, PCIe does, since NVLink traffic does not use PCIe.
    quiet = tuple(window for window in windows if window.bytes_moved)
    proof = judge(msgspec.structs.replace(staged, windows=quiet))
    assert "only GPU to GPU over NVLink remains, but does not fit: pcie-out" in proof.claim


def test_traffic_that_is_not_proportional_to_ours_is_not_ours():
    """A burst of 1 GiB in each window: N of the first round, half of N of the second."""
    staged = msgspec.structs.replace(real("shared"), search=None)
    windows = tuple(with_nvlink(window, GIB if window.bytes_moved else 0) for window in staged.windows)
    proof = judge(msgspec.structs.replace(staged, windows=windows))
    assert not proof.proven
    assert any("not proportional to the bytes moved" in it.words for it in proof.signals)


def test_a_counter_that_also_moves_in_the_control_run_proves_nothing():
    peer = real("peer")
    control = changed(changed(trial(RUNS[0]["control"]), "nvlink-out", 1.0), "nvlink-in", 1.0)
    assert judge(peer).path == "nvlink"
    assert not judge(peer, control).proven


@pytest.mark.parametrize("right", [False, None])
def test_nothing_is_proven_if_the_bytes_did_not_arrive(right):
    assert not judge(msgspec.structs.replace(real("peer"), bytes_right=right)).proven


def test_nothing_is_proven_with_an_integrated_gpus_memory():
    proof = judge(msgspec.structs.replace(nic("dmabuf"), integrated=True))
    assert not proof.proven and "host memory" in proof.claim


def nic(registered, there="", *, source="gpu", node=True, **counts):
    """RDMA as the sources describe it; it was never run with a GPU."""
    base = Trial(
        path="verbs", source=source, destination=source, one_node=node,
        registered=registered, registered_there=there or registered, bytes_right=True,
        windows=tuple(TrafficWindow(count, 0.3, ()) for count in (0, GIB, 0, 2 * GIB)),
        search=MemorySearch(0, 300_000_000) if node else None,
    )  # fmt: skip
    for name, moved in {"nvlink-out": 0, "nvlink-in": 0, "loopback": 0, "network": 0, "nic": 1.0}.items():
        base = changed(base, name, moved)
    for name in REGISTRATION_COUNTERS:
        base = changed(base, name, 0, before=3, after=3 + counts.get(name.replace("-", "_"), 0))
    return base


def test_direct_by_dmabuf_needs_our_registration_and_the_nics_counter():
    proof = judge(nic("dmabuf", dmabuf_attachments=1))
    assert proof.claim == "direct from GPU memory to the NIC by dma-buf" and proof.direct
    assert proof.decided_by[0] == "our own registration: dmabuf"
    assert any("never run" in limit for limit in proof.limits)
    assert not judge(without(nic("dmabuf", dmabuf_attachments=1), "nic")).proven


def test_a_registration_unknown_to_the_kernel_proves_nothing():
    assert not judge(nic("dmabuf", dmabuf_attachments=0)).proven
    assert not judge(nic("peermem", peermem_references=0)).proven


def test_direct_by_peermem_is_shown_by_the_modules_counters():
    proof = judge(nic("peermem", peermem_references=1, memory_peer_registrations=1))
    assert proof.path == "nic-peermem" and proof.direct and proof.confidence == "high"


def test_a_nic_that_moved_our_bytes_does_not_make_staged_memory_direct():
    staged = msgspec.structs.replace(nic("staged"), search=MemorySearch(8, 300_000_000))
    assert judge(staged).direct is False


def test_host_memory_over_rdma_is_never_direct():
    """As over rdma_rxe, which counts no bytes."""
    proof = judge(without(nic("host", source="host"), "nic"))
    assert proof.path == "nic-host" and proof.direct is None


def test_one_direct_end_does_not_make_the_transfer_direct():
    proof = judge(nic("dmabuf", "staged", dmabuf_attachments=1))
    assert proof.proven and proof.direct is False


def test_between_nodes_only_this_nodes_counters_count():
    proof = judge(nic("dmabuf", node=False, dmabuf_attachments=1))
    assert proof.direct and "only this node's counters were read" in proof.limits
    sockets = changed(nic("", node=False), "network", 1.0)
    assert judge(sockets).path == "tcp"
    assert not judge(without(nic("", node=False), "network")).proven


def test_every_route_expects_the_signals_that_it_requires():
    paths = [*possible_paths(real("peer")), *possible_paths(nic("dmabuf"))]
    for path in {path.claim: path for path in paths}.values():
        assert set(path.required) <= set(path.expects)
        assert set(path.expects.values()) <= {"moved", "still", "more", "found", "none"}


NUMBERS = st.none() | st.integers(0, 1 << 40)
READINGS = st.builds(
    CounterReading,
    st.sampled_from(
        ["nvlink-out", "nvlink-in", "pcie-out", "pcie-in", "loopback", "nic", *REGISTRATION_COUNTERS]
    ),
    NUMBERS,
    NUMBERS,
    st.sampled_from([0, 1 << 32]),
    st.sampled_from(["", "not supported"]),
)
WINDOWS = st.lists(
    st.builds(
        TrafficWindow,
        st.sampled_from([0, MIB, GIB]),
        st.floats(0, 10),
        st.lists(READINGS, max_size=9).map(tuple),
    ),
    max_size=4,
).map(tuple)


@given(
    st.builds(
        Trial,
        path=st.just("peer"),
        source=st.sampled_from(["gpu", "host"]),
        destination=st.sampled_from(["gpu", "host"]),
        one_gpu=st.booleans(),
        one_node=st.booleans(),
        registered=st.sampled_from(["", "dmabuf", "peermem", "host", "staged"]),
        bytes_right=st.sampled_from([True, True, False, None]),
        windows=WINDOWS,
        search=st.none() | st.builds(MemorySearch, st.integers(0, 3), st.integers(0, 9), st.integers(0, 3)),
    )
)
def test_every_proof_has_the_signals_that_its_route_requires(what):
    proof = judge(what)
    if not proof.proven:
        assert proof.direct is None and proof.claim.startswith("inconclusive: ")
        return
    assert what.bytes_right and proof.decided_by
    paths = possible_paths(what)
    (path,) = (it for it in paths if (it.name, it.registered) == (proof.path, what.registered))
    did = {signal.name: signal.did for signal in proof.signals}
    assert all(did[name] == path.expects[name] for name in path.required)
