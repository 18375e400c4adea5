"""A Prometheus on loopback that scrapes a node-exporter, with the alerts of `gdr config alerts`."""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gdrkit.cli import main
from tests.fleet.daemons import ADDRESS, Daemons, free_port
from tests.system_programs import needs

needs_prometheus = needs("prometheus", "prometheus-node-exporter")
WAIT_S = 60
PROMETHEUS = """global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: node
    static_configs: [{{targets: ["{exporter}"]}}]
"""


class Prometheus:
    """A real server that scrapes a real node-exporter, with the alerts of gdr config."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, path: str, **words: str) -> Any:
        """The data of an answer of its HTTP API. Raises OSError, as of a query that it refuses."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(words)}"
        with urllib.request.urlopen(url, timeout=10) as reply:
            return json.load(reply)["data"]

    def fire(self) -> set[tuple[str, str]]:
        """The alerts that fire: each with its node, or its standing."""
        alerts = self.ask("alerts")["alerts"]
        labels = [alert["labels"] for alert in alerts if alert["state"] == "firing"]
        return {(one["alertname"], one.get("node", one.get("standing", ""))) for one in labels}

    def until(self, wanted: set[tuple[str, str]]) -> set[tuple[str, str]]:
        """What fires when it is what is wanted, or after WAIT_S."""
        end = time.monotonic() + WAIT_S
        while (found := self._found()) != wanted and time.monotonic() < end:
            time.sleep(0.5)
        return found

    def until_it_has(self, metric: str) -> None:
        """Wait until it has scraped a metric."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            try:
                if self.ask("query", query=metric)["result"]:
                    return
            except OSError:  # it starts
                pass
            time.sleep(0.2)
        raise AssertionError(f"no {metric} within {WAIT_S} s")

    def _found(self) -> set[tuple[str, str]]:
        try:
            return self.fire()
        except OSError:  # it starts
            return set()


@contextmanager
def prometheus(folder: Path, metrics: Path) -> Iterator[Prometheus]:
    """A server, and the exporter that it scrapes, for a folder of text files."""
    rules, exporter, address = folder / "rules.yaml", f"{ADDRESS}:{free_port()}", f"{ADDRESS}:{free_port()}"
    assert main(["config", "alerts", "-o", str(rules)]) == 0
    (folder / "prometheus.yml").write_text(PROMETHEUS.format(rules=rules, exporter=exporter))
    with Daemons(folder) as daemons:
        daemons.start(
            "exporter", "prometheus-node-exporter", "--collector.disable-defaults", "--collector.textfile",
            f"--collector.textfile.directory={metrics}", f"--web.listen-address={exporter}",
        )  # fmt: skip
        daemons.start(
            "prometheus", "prometheus", f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/tsdb", f"--web.listen-address={address}",
        )  # fmt: skip
        yield Prometheus(address)
