"""A real Prometheus that scrapes the cluster as the chart's PodMonitors say, by way of the API server's proxy."""

from __future__ import annotations

import base64
import json
import math
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from tests.support.chart import EXAMPLE_VALUES, of_kind, render, tool
from tests.support.kubectl import KUBECONFIG, kubectl, wait_for
from tests.support.metrics import RULES

SCRAPE_SECONDS = 5


def targets(monitor: dict[str, Any], pods: list[dict[str, Any]], address: str) -> list[dict[str, Any]]:
    """Name what a PodMonitor selects, with the labels that the Prometheus operator gives: namespace, pod, container.

    Debian's Prometheus is built without the discovery of Kubernetes, so it reads this from a file. The API
    server stands in front of every pod.
    """
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    found = []
    for pod in pods:
        metadata = pod["metadata"]
        if pod["status"].get("phase") != "Running" or not wanted <= metadata.get("labels", {}).items():
            continue
        place = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        found += [
            {
                "targets": [address],
                "labels": {
                    "__metrics_path__": f"{place}:{port['containerPort']}/proxy{endpoint['path']}",
                    "namespace": metadata["namespace"],
                    "pod": metadata["name"],
                    "container": container["name"],
                },
            }
            for container in pod["spec"]["containers"]
            for port in container.get("ports", ())
            if port.get("name") == endpoint["port"]
        ]
    return found


def api_server(folder: Path) -> dict[str, Any]:
    """Read address and certificates of the API server from the kubeconfig; the latter into files."""
    config = yaml.safe_load(KUBECONFIG.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    given = {
        "ca_file": cluster["certificate-authority-data"],
        "cert_file": user["client-certificate-data"],
        "key_file": user["client-key-data"],
    }
    for name, content in given.items():
        (folder / name).write_bytes(base64.b64decode(content))
    return {
        "address": cluster["server"].removeprefix("https://"),
        "tls": {name: str(folder / name) for name in given},
    }


class Prometheus:
    """Runs while the block does; `ever` asks it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.api = api_server(folder)
        self.monitors = of_kind(
            render(EXAMPLE_VALUES, {"metrics": {"podMonitor": {"enabled": True}}}), "PodMonitor"
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.begin = time.time()
        self.ended = threading.Event()
        self.finder = threading.Thread(target=self._find, daemon=True)

    def __enter__(self) -> Self:
        """Start it and wait until it has scraped what is there."""
        config = {
            "global": {"scrape_interval": f"{SCRAPE_SECONDS}s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [
                {
                    "job_name": monitor["metadata"]["name"],
                    "honor_labels": monitor["spec"]["podMetricsEndpoints"][0].get("honorLabels", False),
                    "scheme": "https",
                    "tls_config": self.api["tls"],
                    "file_sd_configs": [{"files": [str(self._file(monitor))]}],
                }
                for monitor in self.monitors
            ],
        }
        (self.folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        self._look()
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [
                    tool("prometheus"),
                    f"--config.file={self.folder / 'prometheus.yaml'}",
                    f"--storage.tsdb.path={self.folder / 'data'}",
                    f"--web.listen-address={self.address}",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.finder.start()
        wait_for("Prometheus to be ready", 30, self._ready)
        wait_for("its first scrape of an operator that leads", 60, lambda: self.ever("specdec_leader == 1"))
        self.begin = time.time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self.ended.set()
        self.finder.join(timeout=30)
        self.process.terminate()
        self.process.wait(timeout=30)

    def _file(self, monitor: dict[str, Any]) -> Path:
        return self.folder / f"{monitor['metadata']['name']}.json"

    def _find(self) -> None:
        """Look for pods as often as they are scraped."""
        while not self.ended.wait(SCRAPE_SECONDS):
            self._look()

    def _look(self) -> None:
        """Write the targets of now; Prometheus sees a file change by itself."""
        pods = json.loads(kubectl("get", "pods", "-A", "-o", "json"))["items"]
        for monitor in self.monitors:
            fresh = self._file(monitor).with_suffix(".new")
            fresh.write_text(json.dumps(targets(monitor, pods, self.api["address"])))
            fresh.rename(self._file(monitor))

    def _ready(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"Prometheus ended: {(self.folder / 'log').read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except urllib.error.URLError:
            return False

    def ever(self, query: str) -> list[float]:
        """Every number that a query has given since the start, by steps of the scrapes.

        Raises
        ------
        urllib.error.HTTPError
            Prometheus refused the query.
        """
        asked = urllib.parse.urlencode(
            {"query": query, "start": self.begin, "end": time.time(), "step": SCRAPE_SECONDS}
        )
        url = f"http://{self.address}/api/v1/query_range?{asked}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            found = json.load(answer)["data"]["result"]
        values = [float(value) for series in found for _, value in series["values"]]
        return [value for value in values if math.isfinite(value)]

    def down(self) -> list[str]:
        """Name every target whose last scrape failed, with the reason."""
        with urllib.request.urlopen(f"http://{self.address}/api/v1/targets", timeout=30) as answer:
            targets = json.load(answer)["data"]["activeTargets"]
        return [f"{target['scrapePool']}: {target['lastError']}" for target in targets if target["lastError"]]
