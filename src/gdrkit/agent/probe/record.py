"""What a probe records of the calls that it makes; its `main` prints it."""

from __future__ import annotations

from typing import Any, Dict, List


class Calls:
    """The calls, in order, with their results."""

    def __init__(self) -> None:
        self.made: List[Dict[str, Any]] = []

    def add(self, call: str, argument: str, device: str, result: int, value: Any = None) -> None:
        self.made.append(
            {"call": call, "argument": argument, "device": device, "result": result, "value": value}
        )
