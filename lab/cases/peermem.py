"""A peer-memory client that imitates nvidia-peermem, with a driver and an RDMA stack. All C code is ours."""

from __future__ import annotations

from typing import Any

import msgspec

from lab.case import Case, ModuleFile, one

_GPU, _OFED = one("gpu"), one("ofed")
_CLIENT = one("peermem-full")


def _case(name: str, *place: ModuleFile, why: str = "", **more: Any) -> Case:
    return Case(
        name=name, why=why, modules=place, load="{module:peermem}", groups=("matrix", "peermem"), **more
    )


_RANDOM_NAMES = (
    _case("peer-stub", one("peermem-stub"), why="compiled without the peer API: -EINVAL, in silence"),
    _case("peer-stub-ofed-there", one("peermem-stub"), _OFED, _GPU),
    _case("peer-full", _CLIENT, _OFED, _GPU),
    _case("peer-full-nc-off", _CLIENT, _OFED, _GPU, arguments=("{parameter:persistent_api_support}=0",)),
    _case(
        "peer-symbols-gone", _CLIENT, one("ofed-without"), _GPU, why="back on an RDMA stack without the API"
    ),
    _case("peer-ofed-absent", _CLIENT, _GPU),
    _case("peer-ofed-rebuilt", _CLIENT, one("ofed-rebuilt"), _GPU, why="another prototype since"),
    _case("peer-two-ofeds", _CLIENT, _OFED, one("ofed-second"), _GPU),
    _case("peer-registration-refused", _CLIENT, one("ofed-refusing"), _GPU),
    _case("peer-bad-parameter", _CLIENT, _OFED, _GPU, arguments=("{parameter:peerdirect_support}=5",)),
    _case(
        "peer-unparsable-parameter", _CLIENT, _OFED, _GPU, arguments=("{parameter:peerdirect_support}=on",)
    ),
    _case("peer-gpu-absent", _CLIENT, _OFED),
    _case("peer-gpu-enodev", _CLIENT, _OFED, one("gpu", answer="ENODEV"), why="no GPU in the machine"),
    _case("peer-gpu-other-version", _CLIENT, _OFED, one("gpu-new"), why="the driver was updated alone"),
    _case("peer-unsigned", one("peermem-full", key=""), one("ofed", key="lab"), one("gpu", key="lab")),
    _case("peer-gpu-unsigned", one("peermem-full", key="lab"), one("ofed", key="lab"), one("gpu", key="")),
    _case("peer-stub-signed", one("peermem-stub", key="lab")),
    _case(
        "peer-altered",
        one("peermem-full", key="lab", damage=("flip",)),
        one("ofed", key="lab"),
        one("gpu", key="lab"),
    ),
    _case("peer-xz", one("peermem-full", compression="xz"), _OFED, _GPU),
    _case("peer-blacklisted-gpu", _CLIENT, _OFED, _GPU, config="install {module:gpu} /bin/false\n"),
    _case(
        "peer-dkms-beside-distribution", _CLIENT, one("peermem-stub", at="kernel/drivers/video"), _OFED, _GPU
    ),
    _case(
        "peer-stub-beside-distribution",
        one("peermem-stub"),
        one("peermem-full", at="kernel/drivers/video"),
        _OFED,
        _GPU,
    ),
)
_DASHED = "nvidia-peermem"


def _named(case: Case) -> Case:
    """The same case under the real names; the file has a dash, like NVIDIA's."""
    place = tuple(
        msgspec.structs.replace(row, file=_DASHED) if row.variant.source.startswith("peermem") else row
        for row in case.modules
    )
    return msgspec.structs.replace(case, name="named-" + case.name, real_names=True, modules=place)


CASES = (*_RANDOM_NAMES, *(_named(case) for case in _RANDOM_NAMES))
