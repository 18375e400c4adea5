"""How the time to remove secrets and names grows with the text, on texts that slow down a search.

    uv run --no-sync python -m benchmarks.searches

Each text repeats the beginning of a secret or an address, without being one. A text four times as long
should take four times as long; if a search continued from each position to the end, it would take sixteen
times as long. CPU time, the best of some rounds. Exit code 1 if the limit is exceeded.
"""

from __future__ import annotations

import sys
import time

from gdrkit.agent.collect.anonymize import Anonymizer
from gdrkit.agent.collect.redact import without_secrets

ROUNDS = 3
SHORT_BYTES, TIMES = 75_000, 4
LIMIT = 8.0
TEXTS = {"one word": b"a", "words": b"key a.", "pairs": b"key 0:", "dots": b"a.b"}


def best_ms(text: bytes) -> float:
    """CPU time of the fastest round in ms."""
    anonymizer, rounds = Anonymizer([("host", "zgx-3285")]), []
    for _ in range(ROUNDS):
        start = time.process_time()
        anonymizer.content(without_secrets(text))
        rounds.append(time.process_time() - start)
    return min(rounds) * 1000


def main() -> int:
    print(f"{'text':<12} {'ms':>8} {f'{TIMES} times as long':>18} {'growth':>8} {'limit':>7}")
    kept = True
    for name, piece in TEXTS.items():
        text = b"key" + piece * (SHORT_BYTES // len(piece))
        short, long = best_ms(text), best_ms(text * TIMES)
        print(f"{name:<12} {short:8.1f} {long:18.1f} {long / short:7.1f}x {LIMIT:6}x")
        kept = kept and long / short <= LIMIT
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
