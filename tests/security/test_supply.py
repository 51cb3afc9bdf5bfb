"""The list of what the operator is made of, and the report of what is known against it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from tests import supply

ROOT = Path(__file__).parents[2]


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
    assert "out of reach" in said
    assert (tmp_path / "audit.txt").read_text()
