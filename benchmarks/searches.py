"""How dropping secrets and names grows with the text, on texts made to hold a search up.

    uv run --no-sync python -m benchmarks.searches

Each text begins like a secret or an address again and again and is none. A text four times as long takes
four times as long; where a search goes on from each place to the end, it takes sixteen times. Processor
time, the best of some rounds. Exit code 1 if the limit is passed.
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
    """Processor time of the fastest round."""
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
