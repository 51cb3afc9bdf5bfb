"""The list of what the operator is made of, and the report of what is known against it."""

from __future__ import annotations

import json
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests import supply

ROOT = Path(__file__).parents[2]
MODIFIED = "2026-01-01T00:00:00Z"


def test_the_bill_of_materials_names_every_package_of_the_images_in_its_locked_version(tmp_path: Path):
    supply.bill_of_materials(tmp_path / "sbom.json")
    listed = json.loads((tmp_path / "sbom.json").read_text())["components"]
    found = {item["name"]: item.get("version") for item in listed}
    locked = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    versions = {item["name"]: item["version"] for item in locked}
    assert {"kopf", "kubernetes", "aiohttp", "pydantic", "pyjwt"} <= set(found)
    assert all(version == versions[name] for name, version in found.items())
    assert "pytest" not in found


def test_a_database_of_advisories_that_is_out_of_reach_stops_nobody(tmp_path: Path):
    said = supply.audit(tmp_path / "audit.txt", "--service-url", "http://127.0.0.1:1")
    assert said == "not audited: the database of advisories is out of reach: see audit.txt"
    assert (tmp_path / "audit.txt").read_text()


def test_a_command_that_uv_does_not_take_is_not_said_to_be_out_of_reach(tmp_path: Path):
    said = supply.audit(tmp_path / "audit.txt", "--no-such-option")
    assert said == "not audited: unexpected argument '--no-such-option' found (exit code 2)"


class Advisories(BaseHTTPRequestHandler):
    """A database that knows one advisory, against the first package that it is asked about."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        self.answer(
            {"results": [{"vulns": [{"id": "OSV-1", "modified": MODIFIED}]}, *[{}] * (len(asked) - 1)]}
        )

    def do_GET(self) -> None:
        self.answer({"id": "OSV-1", "modified": MODIFIED, "summary": "it is bad", "affected": []})

    def answer(self, body: dict[str, object]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        pass


def test_findings_are_said_to_be_findings(tmp_path: Path):
    with ThreadingHTTPServer(("127.0.0.1", 0), Advisories) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        said = supply.audit(tmp_path / "audit.txt", "--service-url", f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert said == "there are findings: see audit.txt"
    assert "OSV-1" in (tmp_path / "audit.txt").read_text()
