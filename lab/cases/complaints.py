"""Lines and files of modprobe.d that modprobe cannot read: it complains, every time, and goes on."""

from __future__ import annotations

from lab.case import Case, one

_CONF = "/etc/modprobe.d/case.conf"
_BUSYBOX = "/bin/busybox"
_CLEAN = ((_BUSYBOX, "rm", "-rf", _CONF),)
_LINES = {
    "typo": "option {module:plain} x=1\n",
    "indented-comment": "# fine\n  # not fine\n",
    "semicolon": ";{module:plain}\n",
    "byte-order-mark": "\ufeffblacklist {module:plain}\n",
    "include": "include /etc/other\nconfig /etc/another\n",
    "carriage-returns": "# fine\r\n\r\nblacklist {module:plain}\r\n",
    "word-alone": "install\ninstall {module:plain}\noptions {module:plain}\n",
    "continued": "nonsense \\\n a \\\n b\nmore\n",
    "unpaired-bracket": "alias a[b {module:plain}\n",
    "weakdep": "weakdep {module:plain} nosuchmodule_at_all\n",
    "lone-backslash": "install {module:plain} /bin/fal\\se\n",
    "install-false-with-carriage-return": "install {module:plain} /bin/false\r\n",
}


def _case(name: str, *before: tuple[str, ...], **more: str) -> Case:
    return Case(
        name=f"complaint-{name}", modules=(one("plain"),), config=more.get("config", ""),
        texts=((more["path"], more["text"]),) if "path" in more else (), before=before, after=_CLEAN,
        groups=("modprobe",), open_because=more.get("open_because", ""),
    )  # fmt: skip


CASES = (
    *(_case(name, config=text) for name, text in _LINES.items()),
    _case(
        "quiet-typo",
        config="option {module:plain}\ninstall {module:plain} /usr/sbin/modprobe -qi {module:plain}\n",
    ),
    _case("folder", (_BUSYBOX, "mkdir", _CONF)),
    _case(
        "masked",
        (_BUSYBOX, "ln", "-s", "/dev/null", _CONF),
        path="/usr/lib/modprobe.d/case.conf",
        text="install lab_masked /bin/false\n",
    ),
    _case("dangling", (_BUSYBOX, "ln", "-s", "/nosuch", _CONF)),
    _case("looping", (_BUSYBOX, "ln", "-s", "case.conf", _CONF)),
    _case("alias-file", path="/etc/modprobe.d/case.alias", text="blacklist lab_masked\nnonsense\n"),
)
