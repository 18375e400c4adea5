"""Words of a module's arguments: dotted names, lone equals signs, two dashes, dyndbg and async_probe."""

from __future__ import annotations

from lab.case import Case, one

_NUMBER = "{parameter:number}"
_WORDS = {
    "dotted": ("nvidia.X=1",),
    "dotted-dyndbg": ("nvidia.dyndbg=+p",),
    "spaces-around-equals": (_NUMBER, "=", "5"),
    "equals-first": ("=5",),
    "dashes": ("--", "--", _NUMBER + "=five"),
    "dashes-last": (_NUMBER + "=5", "--", "--"),
    "dyndbg-nonsense": ("dyndbg=nonsense",),
    "dyndbg-bad-flag": ("dyndbg=+q",),
    "async-probe-dash": ("async-probe=1",),
    "quoted-word": ('"' + _NUMBER + '=5"',),
    "dashes-for-underscores": ("no-such-name.x=1",),
}
_OPTIONS = {
    "spaces-around-equals": _NUMBER + " = 5",
    "dashes": _NUMBER + "=5 -- " + _NUMBER + "=five and  more",
    "dyndbg-query": 'dyndbg="file nothing.c +p; module {module:taker} +p"',
}
_BOOT = {
    "dotted": "{module:taker}.a.b=1",
    "dyndbg": "{module:taker}.dyndbg=+p",
    "bare": "{module:taker}." + _NUMBER,
}


def _case(name: str, *arguments: str, config: str = "", append: str = "") -> Case:
    return Case(
        name=f"word-{name}", modules=(one("taker"),), load="{module:taker}", arguments=arguments,
        config=config, append=append, groups=("modprobe",),
    )  # fmt: skip


CASES = (
    *(_case(name, *words) for name, words in _WORDS.items()),
    *(
        _case(f"option-{name}", config=f"options {{module:taker}} {text}\n")
        for name, text in _OPTIONS.items()
    ),
    *(_case(f"boot-{name}", append=text) for name, text in _BOOT.items()),
)
