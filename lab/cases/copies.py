"""Copies of a module under another name, and inits that the kernel may not run."""

from __future__ import annotations

import msgspec

from lab.case import Case, ModuleFile, one

_MODPROBE = "/usr/sbin/modprobe"
_COPY = "{module:gpu}-current"
_CLIENT, _OFED, _GPU = one("peermem-full"), one("ofed"), one("gpu")
_SECOND = one("gpu", file=_COPY)
_OTHER_BUILD = one("gpu-new", file=_COPY)


def _copy(name: str, *modules: ModuleFile, load: str, loaded: tuple[str, ...] = (), **more: str) -> Case:
    return Case(
        name=f"copy-{name}", modules=modules, load=load, judged=more.get("judged", ""),
        before=tuple((_MODPROBE, module) for module in loaded), config=more.get("config", ""),
        groups=("modprobe",),
    )  # fmt: skip


_PEERMEM, _OF = "{module:peermem}", "{module:ofed}"
_RUNNING = ("{module:gpu}", _OF)
_COPIES = (

    _copy("of-a-loaded-one", _GPU, _SECOND, load=_COPY, judged="{module:gpu}", loaded=("{module:gpu}",)),

    _copy("beside", _CLIENT, _OFED, _GPU, _SECOND, load=_PEERMEM),
    _copy("beside-the-loaded-one", _CLIENT, _OFED, _GPU, _SECOND, load=_PEERMEM, loaded=_RUNNING),

    _copy("of-another-build", _CLIENT, _OFED, _GPU, _OTHER_BUILD, load=_PEERMEM, loaded=_RUNNING),

    _copy(
        "by-an-install-line", _CLIENT, _OFED, _SECOND, load="{module:gpu}", judged="{module:gpu}",
        config=f"install {{module:gpu}} {_MODPROBE} -i {_COPY} $CMDLINE_OPTS\n",
    ),
    _copy("refused", _GPU, one("gpu", file=_COPY, tamper=("vermagic-flags",)), load=_COPY,
          judged="{module:gpu}", loaded=("{module:gpu}",)),
)  # fmt: skip

_BARRED = "initcall_blacklist=lab_barred_init"
_NEAR = "initcall_blacklist=lab_barred,lab_barred_init_more,init_module"
_INITCALLS = (
    Case(name="initcall-barred", modules=(one("barred"),), load="{module:barred}", append=_BARRED),
    Case(name="initcall-others", modules=(one("plain"),), append=_NEAR),
    Case(
        name="initcall-barred-dependency",
        modules=(one("provider-barred"), one("consumer")),
        load="{module:consumer}",
    ),
    Case(
        name="initcall-barred-and-unsigned-symbols",
        modules=(one("barred", tamper=("no-versions",)),),
        load="{module:barred}",
    ),
    Case(
        name="initcall-barred-other-vermagic",
        modules=(one("barred", tamper=("vermagic-flags",)),),
        load="{module:barred}",
    ),
    Case(name="initcall-barred-xz", modules=(one("barred", compression="xz"),), load="{module:barred}"),
)

CASES = (
    *(msgspec.structs.replace(case, real_names=True) for case in _COPIES),
    *(msgspec.structs.replace(case, groups=("initcall",)) for case in _INITCALLS),
)
