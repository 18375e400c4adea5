"""Options of aliases, lookups of symbols, and characters that kernel and modprobe read differently."""

from __future__ import annotations

from lab.case import Case, one

_BAD, _GOOD = "{parameter:number}=five", "{parameter:number}=5"
_NICK = "alias lab-nick {module:taker}\n"
_CONFIGS = {
    "options": (_NICK + f"options lab-nick {_BAD}\n", "lab-nick"),
    "options-underscore": (_NICK + f"options lab_nick {_BAD}\n", "lab-nick"),
    "options-by-name": (_NICK + f"options lab-nick {_BAD}\n", "{module:taker}"),
    "options-both": (_NICK + f"options lab-nick {_BAD}\noptions {{module:taker}} {_GOOD}\n", "lab-nick"),
    "options-pattern": (f"alias lab-* {{module:taker}}\noptions lab-* {_BAD}\n", "lab-nick"),
    "options-not-of-pattern": (f"alias lab-* {{module:taker}}\noptions lab-nick {_BAD}\n", "lab-nick"),
    "no-break-space": (f"options {{module:taker}} {_GOOD}\u00a0{_GOOD}\n", "{module:taker}"),
    "em-space": (f"options {{module:taker}} {_GOOD}\u2003{_GOOD}\n", "{module:taker}"),
    "vertical-tab": (f"options {{module:taker}} {_GOOD}\x0b{_GOOD}\n", "{module:taker}"),
}

CASES = (
    *(
        Case(
            name=f"alias-{name}",
            modules=(one("taker"),),
            config=config,
            load=load,
            judged="{module:taker}",
            groups=("modprobe",),
        )
        for name, (config, load) in _CONFIGS.items()
    ),
    *(
        Case(
            name=f"alias-{name}",
            modules=(one("provider"),),
            load=load,
            judged="{module:provider}",
            config=config,
            groups=("modprobe",),
        )
        for name, load, config in (
            ("of-a-symbol", "symbol:{symbol:alpha}", ""),
            ("of-a-symbol-blacklisted", "symbol:{symbol:alpha}", "blacklist {module:provider}\n"),
            ("of-no-symbol", "symbol:of_nothing_at_all", ""),
        )
    ),
)
