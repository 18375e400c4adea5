"""Install lines that call modprobe with options, and what sh does with such a line."""

from __future__ import annotations

from lab.case import Case, one

_MODPROBE = "/usr/sbin/modprobe"
_SELF = f"{_MODPROBE} -i {{module:plain}}"
_OTHER = "{module:other}"
_LINES = {
    "unload-first": f"{_MODPROBE} -r {_OTHER}; {_SELF}",
    "unload-first-strictly": f"{_MODPROBE} -r {_OTHER} && {_SELF}",
    "unload-alone": f"{_MODPROBE} -r {_OTHER}",
    "unload-unknown": f"{_MODPROBE} -r nosuchmodule_at_all; {_SELF}",
    "unload-first-time": f"{_MODPROBE} -r --first-time {_OTHER}",
    "no-name": _MODPROBE,
    "no-name-quiet": f"{_MODPROBE} -q",
    "empty-name": f"{_MODPROBE} ''",
    "all": f"{_MODPROBE} -ia {_OTHER} {{module:plain}}",
    "all-with-unknown": f"{_MODPROBE} -a {_OTHER} nosuchmodule_at_all",
    "unknown-option": f"{_MODPROBE} --nonsense {{module:plain}}",
    "unknown-letter": f"{_MODPROBE} -z {{module:plain}}",
    "abbreviated": f"{_MODPROBE} --ignore {{module:plain}}",
    "abbreviated-too-far": f"{_MODPROBE} --re {{module:plain}}",
    "dry": f"{_MODPROBE} -n {{module:plain}}",
    "syslog": f"{_MODPROBE} -s nosuchmodule_at_all",
    "verbose": f"{_MODPROBE} -v -i {{module:plain}}",
    "two-dashes": f"{_MODPROBE} -i -- {{module:plain}}",
    "exec": f"exec {_SELF}; /bin/false",
    "exec-fails": "exec /bin/false; " + _SELF,
    "comment": f"{_SELF} # || /bin/false",
    "no-comment": f"{_SELF}#",
    "redirected": f"{_SELF} >/dev/null 2>&1",
    "complaints-redirected": f"{_MODPROBE} nosuchmodule_at_all 2>/dev/null; {_SELF}",
    "loads-another": f"{_MODPROBE} {_OTHER}",
}
_OPEN = {
    "version": f"{_MODPROBE} --version",
    "force": f"{_MODPROBE} -f -i {{module:plain}}",
    "other-configuration": f"{_MODPROBE} -C /dev/null {{module:plain}}",
    "other-release": f"{_MODPROBE} -S 0.0.0 {{module:plain}}",
}
_UNLOAD = (("-", "/usr/sbin/rmmod", "{module:plain}"), ("-", "/usr/sbin/rmmod", _OTHER))


def _case(name: str, line: str, **more: str) -> Case:
    loads = ((_MODPROBE, _OTHER),) if more.get("loaded") else ()
    return Case(
        name=f"nested-{name}", modules=(one("plain"), one("other")), before=loads, after=_UNLOAD,
        config=f"install {{module:plain}} {line}\n", groups=("modprobe",),
        open_because=more.get("open_because", ""),
    )  # fmt: skip


CASES = (
    *(_case(name, line) for name, line in _LINES.items()),
    *(
        _case(name, line, open_because="what modprobe does or prints by other options")
        for name, line in _OPEN.items()
    ),
    _case(
        "unload-first-loaded",
        _LINES["unload-first"],
        loaded="yes",
        open_because="whether a module that is loaded can be removed",
    ),
)
