"""A stand-in for the dashboard of a Ray cluster: the part of its interface that gdr uses, on loopback.

It runs no job: a test says what the nodes are, what the driver prints and what its parcels hold."""

from __future__ import annotations

import io
import json
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

HOST = "127.0.0.1"


def node(address: str, state: str = "ALIVE", **more: object) -> dict[str, object]:
    return {"node_id": f"id-{address}", "node_ip": address, "node_name": address, "state": state, **more}


class Dashboard:
    """What the cluster is, and what it was asked."""

    def __init__(self) -> None:
        self.nodes = [node("10.0.0.1"), node("10.0.0.2")]
        self.says: list[dict[str, object]] = []  # lines of the driver
        self.noise = ""  # other lines of the log
        self.parcels: dict[str, bytes] = {}
        self.status, self.message = "RUNNING", ""
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.packages: dict[str, bytes] = {}
        self.job: dict[str, object] = {}
        self.answer: tuple[int, bytes, dict[str, str]] | None = None  # to everything
        self.address = ""

    @property
    def name(self) -> str:
        return str(self.job.get("submission_id", ""))

    def order(self) -> dict[str, object]:
        """The order in the package of the job."""
        package = self.packages[self.job["runtime_env"]["working_dir"].removeprefix("gcs://")]  # type: ignore[index]
        with zipfile.ZipFile(io.BytesIO(package)) as opened:
            return json.loads(opened.read("order.json"))

    def reply(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        url = urlsplit(path)
        words = url.path.strip("/").split("/")
        match method, words:
            case "GET", ["api", "v0", "nodes"]:
                listed = {"result": self.nodes, "total": len(self.nodes)}
                return 200, json.dumps({"result": True, "data": {"result": listed}}).encode()
            case "GET", ["api", "v0", "logs", "file"]:
                return 200, self.parcels[parse_qs(url.query)["filename"][0].rpartition("/")[2]]
            case "PUT", ["api", "packages", "gcs", name]:
                self.packages[name] = body
                return 200, b""
            case "POST", ["api", "jobs"]:
                self.job = json.loads(body)
                return 200, b"{}"
            case "POST", ["api", "jobs", _, "stop"]:
                self.status = "STOPPED"
                return 200, b"{}"
            case "GET", ["api", "jobs", _, "logs"]:
                lines = "".join(f"{self.name} {json.dumps(line)}\n" for line in self.says)
                return 200, json.dumps({"logs": self.noise + lines}).encode()
            case "GET", ["api", "jobs", _]:
                return 200, json.dumps({"status": self.status, "message": self.message}).encode()
        return 404, b"not there"


@contextmanager
def dashboard() -> Iterator[Dashboard]:
    """A stand-in that listens on loopback."""
    made = Dashboard()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            made.asked.append(f"{self.command} {self.path}")
            made.headers.append(dict(self.headers))
            code, content, headers = made.answer or (*made.reply(self.command, self.path, body), {})
            self.send_response(code)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = answer

        def log_message(self, *words: object) -> None:
            return

    with ThreadingHTTPServer((HOST, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        made.address = f"http://{HOST}:{server.server_port}"
        yield made
        server.shutdown()
