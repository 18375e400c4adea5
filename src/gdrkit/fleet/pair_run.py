"""One run of `gdr fleet bench`: rounds of disjoint pairs until a deadline.

A round ends before the next one begins, so that no node is in two pairs at once. Each round has its share of
the time that is left. A node that does not take part is not asked again.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from gdrkit.evidence.errors import TargetError
from gdrkit.fleet.document import NodeRow, Standing
from gdrkit.fleet.judge import in_a_line, reason_of, without_answer
from gdrkit.fleet.launcher import Meet, NodeFailed, Pair, PairLauncher, PairRate, PairRequest
from gdrkit.fleet.pair_document import PairRow
from gdrkit.fleet.pool import GRACE_S
from gdrkit.fleet.rounds import most_rounds, rounds_of
from gdrkit.fleet.run import TIMEOUT_S


class PairRun:
    """Pairs of nodes to measure through a launcher; `rows` has those that were tried, and `silent` the nodes
    that did not take part."""

    def __init__(
        self,
        launcher: PairLauncher,
        program: str,
        meet: Meet,
        *,
        timeout_s: float = TIMEOUT_S,
        fanout: int = 0,
    ) -> None:
        self._launcher, self._program, self._meet = launcher, program, meet
        self._deadline = time.monotonic() + timeout_s
        self._fanout = fanout or launcher.fanout
        self.rows: list[PairRow] = []
        self.silent: dict[str, NodeRow] = {}

    def measure(
        self, nodes: Sequence[str], rounds: int, arrived: Callable[[PairRow | NodeRow], None]
    ) -> bool:
        """Measure the pairs of some rounds; `arrived` gets a row for each, and for each node that does not
        take part. Returns false if it was interrupted."""
        try:
            down = self._launcher.down()
            for node in nodes:
                if node in down:
                    arrived(self._lost(node, down[node]))
            up = [node for node in nodes if node not in down]
            rounds = min(rounds, most_rounds(len(up)))
            for number, pairs in enumerate(islice(rounds_of(up), rounds)):
                left_s = self._deadline - time.monotonic()
                deadline = self._deadline - left_s * (rounds - number - 1) / (rounds - number)
                for pair, result in self._answers(pairs, deadline):
                    self._take(pair, result, number + 1, arrived)
        except KeyboardInterrupt:
            return False
        return True

    def _answers(
        self, pairs: Sequence[Pair], deadline: float
    ) -> Iterator[tuple[Pair, PairRate | BaseException]]:
        """The answer of each pair whose nodes take part. After the deadline each has one, whatever the
        launcher does."""
        left = dict.fromkeys(pair for pair in pairs if not self.silent.keys() & set(pair))
        answers: queue.SimpleQueue[tuple[Pair, PairRate | BaseException]] = queue.SimpleQueue()
        request = PairRequest(list(left), self._program, self._meet, deadline, self._fanout)
        asking = self._launcher.ask_pairs(request, lambda *answer: answers.put(answer))
        try:
            while left:
                try:
                    pair, result = answers.get(timeout=max(0.0, deadline + GRACE_S - time.monotonic()))
                except queue.Empty:
                    for pair in left:
                        yield pair, TargetError("no answer before the deadline")
                    return
                del left[pair]
                yield pair, result
        finally:
            asking.end()

    def _take(
        self,
        pair: Pair,
        result: PairRate | BaseException,
        number: int,
        arrived: Callable[[PairRow | NodeRow], None],
    ) -> None:
        if isinstance(result, PairRate):
            row = PairRow(nodes=pair, round=number, **result._asdict())
        else:
            node = result.node if isinstance(result, NodeFailed) else ""
            row = PairRow(nodes=pair, round=number, why=in_a_line(reason_of(result)), node=node)
            if node and node not in self.silent:
                arrived(self._lost(node, row.why))
        self.rows.append(row)
        arrived(row)

    def _lost(self, node: str, why: str) -> NodeRow:
        """The row of a node that is not asked again."""
        row = without_answer(self._launcher.target(node), node, why, Standing.UNREACHABLE)
        self.silent[node] = row
        return row
