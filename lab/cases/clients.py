"""Clients of one name: nv_peer_mem beside nvidia-peermem, where the RDMA stack compares names or not."""

from __future__ import annotations

from lab.case import UPDATES, Case, ModuleFile, one

_MODPROBE, _RMMOD = "/usr/sbin/modprobe", "/usr/sbin/rmmod"
_CLIENT = one("peermem-named", file="nvidia-peermem")
_LISTING, _GPU, _LEGACY = one("ofed-listing"), one("gpu"), one("legacy")
_ALL = (_CLIENT, _LISTING, _GPU, _LEGACY)
_PROVIDERS = ((_MODPROBE, "{module:gpu}"), (_MODPROBE, "{module:ofed}"))
_OLD = ((_MODPROBE, "{module:legacy}"),)
_REFUSED = (("-", _MODPROBE, "nvidia-peermem"),)
_NO_OLD = ((_RMMOD, "{module:legacy}"),)
_FILE = f"/usr/lib/modules/KERNEL/{UPDATES}/{{module:legacy}}.ko"


def _case(name: str, *before: tuple[str, ...], modules: tuple[ModuleFile, ...] = _ALL, **more: str) -> Case:
    return Case(
        name=f"client-{name}", modules=modules, load=more.get("load", "nvidia-peermem"),
        judged=more.get("judged", "{module:peermem}"), before=before, real_names=True, groups=("modprobe",),
    )  # fmt: skip


_COMPARES_NOTHING = (_CLIENT, one("ofed"), _GPU, _LEGACY)

CASES = (
    _case("alone", *_PROVIDERS),

    _case("taken", *_PROVIDERS, *_OLD),
    _case("taken-cold", *_OLD),

    _case("free-again", *_PROVIDERS, *_OLD, *_REFUSED, *_NO_OLD),

    _case(
        "free-again-and-uninstalled", *_PROVIDERS, *_OLD, *_REFUSED, *_NO_OLD,
        ("/bin/busybox", "rm", _FILE), ("/usr/sbin/depmod", "-a"),
    ),
    _case(
        "free-again-loaded-and-unloaded", *_PROVIDERS, *_OLD, *_REFUSED, *_NO_OLD, *_REFUSED,
        (_RMMOD, "{module:peermem}"),
    ),
    _case(
        "taken-free-taken", *_PROVIDERS, *_OLD, *_REFUSED, *_NO_OLD, *_OLD,
    ),
    _case(
        "free-after-the-stack-restarted", *_OLD, *_REFUSED, *_NO_OLD, ("-", _RMMOD, "{module:ofed}"),
    ),

    _case("old-after-the-new", *_PROVIDERS, *_REFUSED, load="{module:legacy}", judged="{module:legacy}"),
    _case("names-not-compared", *_PROVIDERS, *_OLD, modules=_COMPARES_NOTHING),

)  # fmt: skip
