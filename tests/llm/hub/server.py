"""A server on this machine that speaks as much of the Hub's protocol as a download needs."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = 1000
"""From how many bytes on a file is one of LFS, with its SHA-256 told."""


@dataclass
class Hub:
    """``files`` by path; ``status``: what other answer is given, and its ``code``; ``promised``: sizes and digests that
    are told in place of the real ones; ``cut``: after how many bytes of a file the connection breaks, once a number;
    ``ranges``: whether files can be gone on with; ``elsewhere``: another server that has them.
    ``asked``: what was asked for, with the range and the token."""

    files: dict[str, bytes]
    status: int = 200
    code: str = ""
    promised: dict[str, bytes] = field(default_factory=dict)
    cut: list[int] = field(default_factory=list)
    asked: list[tuple[str, str, str, str]] = field(default_factory=list)
    ranges: bool = True
    elsewhere: str = ""
    address: str = ""

    def listing(self) -> dict[str, Any]:
        siblings = []
        for name, held in self.files.items():
            data = self.promised.get(name, held)
            entry: dict[str, Any] = {
                "rfilename": name,
                "size": len(data),
                "blobId": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest(),
            }
            if len(data) >= LARGE:
                entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            siblings.append(entry)
        return {"id": "owner/model", "sha": COMMIT, "siblings": siblings}

    def fetched(self) -> list[tuple[str, str]]:
        """Files that were asked for, each with its range."""
        return [
            (path.rpartition(f"/{COMMIT}/")[2], span)
            for verb, path, span, _ in self.asked
            if verb == "GET" and "/resolve/" in path
        ]


class _Handler(http.server.BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        hub, path = self.hub, self.path.partition("?")[0]
        span, key = self.headers.get("Range", ""), self.headers.get("Authorization", "")
        hub.asked.append((self.command, path, span, key))
        if hub.status != 200:
            self._send(hub.status, b"{}", {"X-Error-Code": hub.code} if hub.code else {})
        elif path.startswith("/api/models/owner/model"):
            revision = path.removeprefix("/api/models/owner/model").removeprefix("/revision/")
            known = revision in ("", "main", "v1", COMMIT)
            body = json.dumps(hub.listing()).encode()
            self._send(*(200, body, {}) if known else (404, b"{}", {"X-Error-Code": "RevisionNotFound"}))
        elif path.startswith(f"/owner/model/resolve/{COMMIT}/") and hub.elsewhere:
            self._send(302, b"", {"Location": hub.elsewhere + path})
        elif path.startswith(f"/owner/model/resolve/{COMMIT}/"):
            self._file(hub.files[path.removeprefix(f"/owner/model/resolve/{COMMIT}/")], span)
        else:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _file(self, data: bytes, span: str) -> None:
        digest = hashlib.sha256(data).hexdigest()
        headers = {"ETag": f'"{digest}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        span = span if self.hub.ranges else ""
        begin = int(span.removeprefix("bytes=").partition("-")[0]) if span else 0
        if span:
            headers["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        cut = self.hub.cut.pop(0) if self.hub.cut and self.command == "GET" else len(data)
        self._send(206 if span else 200, data[begin:], headers, cut)

    def _send(self, status: int, body: bytes, headers: dict[str, str], most: int | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        with contextlib.suppress(ConnectionError):  # the client may leave
            self.wfile.write(body[:most])
        if most is not None and most < len(body):
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@contextlib.contextmanager
def running(files: dict[str, bytes]) -> Iterator[Hub]:
    """A hub with one model, ``owner/model``."""
    hub = Hub(files)
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)
