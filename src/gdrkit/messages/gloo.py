"""Messages of Gloo, which PyTorch uses between ranks for data in host memory, over TCP.

Gloo takes the interface of GLOO_SOCKET_IFNAME, else the address to which the host's name resolves, and the
loopback interface where it resolves to none of the host: PyTorch torch/csrc/distributed/c10d/
ProcessGroupGloo.cpp, createDefaultDevice(). Where that is the loopback, another host connects to itself.
"""

from __future__ import annotations

from gdrkit.messages.message import Meaning, MessageTemplate

_GLOO = "Gloo, PyTorch's group for data in host memory,"
_OTHERS = "Neither NCCL nor RDMA has a part in that"
_CHOOSE = (
    "On every host, run `getent hosts $(hostname)`. If it shows 127.* or nothing, set GLOO_SOCKET_IFNAME to"
    " the interface by which the hosts reach each other (`ip route get ADDRESS` of another one names it), or"
    " correct the name in /etc/hosts"
)
_SOURCE = "pytorch/gloo gloo/transport/tcp/"

ROWS = (
    MessageTemplate(
        "gloo",
        r"gloo/transport/tcp/{:\w{1,30}\.\w{1,3}:\d{1,5}\] .{0,200}?}{:(?:remote=|connect )"
        r"\[(?:127\.[\d.]{5,11}|::1|::ffff:127\.[\d.]{5,11})\]}:",
        meaning=Meaning(
            f"{_GLOO} tries to reach another rank at a loopback address, where no other host answers."
            f" {_OTHERS}",
            f"{_CHOOSE}. In a job on one host, another rank stopped: its log has the reason",
        ),
        source=f"{_SOURCE}error.cc, address.cc; pytorch/gloo issue 223; sgl-project/sglang issue 3226",
        open_end=True,
        sample="[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] timed out connecting: SO_ERROR:"
        " Connection refused, remote=[127.0.0.1]:14215",
    ),
    MessageTemplate(
        "gloo",
        "Gloo connectFullMesh failed with {:.}",
        meaning=Meaning(
            f"{_GLOO} could not connect this rank to the others, before any collective operation. {_OTHERS}",
            f"{_CHOOSE}. Else look for the first error of all ranks: one that stopped does not answer",
        ),
        source="PyTorch torch/csrc/distributed/c10d/ProcessGroupGloo.cpp; older gloo prints `no error`",
        open_end=True,
        sample="RuntimeError: Gloo connectFullMesh failed with"
        " [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error",
    ),
    MessageTemplate(
        "gloo",
        r"gloo/transport/{:\w{1,12}/\w{1,30}\.\w{1,3}:\d{1,5}}] {:\S}",
        meaning=Meaning(
            f"{_GLOO} lost its connection to another rank, or waited for one that did not answer. {_OTHERS}",
            "Look for the first error of all ranks: the one that stopped, or is behind, has the reason",
            effect="follows",
        ),
        source=f"{_SOURCE}pair.cc and unbound_buffer.cc; gloo/common/error.h, GLOO_ERROR_MSG",
        open_end=True,
        sample="RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"
        " [10.0.0.2]:41562",
    ),
)
