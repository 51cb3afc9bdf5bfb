"""A real Prometheus that scrapes pods of the cluster by way of the API server's proxy: as the chart's PodMonitors say, or as asked."""

from __future__ import annotations

import base64
import json
import math
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from tests.support.chart import EXAMPLE_VALUES, of_kind, render, tool
from tests.support.kubectl import KUBECONFIG, kubectl, wait_for
from tests.support.ports import free_ports

SCRAPE_SECONDS = 5
Manifest = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """What is scraped under one name."""

    name: str
    places: Callable[[Manifest], list[Manifest]]
    """Labels of each place to scrape in a running pod; `__metrics_path__` is where the API server serves it."""
    honor_labels: bool = False


def monitored() -> list[Job]:
    """Read the jobs out of the chart's PodMonitors."""
    made = render(EXAMPLE_VALUES, {"metrics": {"podMonitor": {"enabled": True}}})
    return [
        Job(
            monitor["metadata"]["name"],
            lambda pod, monitor=monitor: selected(monitor, pod),  # type: ignore[misc]
            monitor["spec"]["podMetricsEndpoints"][0].get("honorLabels", False),
        )
        for monitor in of_kind(made, "PodMonitor")
    ]


def selected(monitor: Manifest, pod: Manifest) -> list[Manifest]:
    """Name what a PodMonitor selects of a pod, with the labels that the Prometheus operator gives: namespace, pod, container."""
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    metadata = pod["metadata"]
    if not monitor["spec"]["selector"]["matchLabels"].items() <= metadata.get("labels", {}).items():
        return []
    return [
        {
            "__metrics_path__": proxied(pod, port["containerPort"], endpoint["path"]),
            "namespace": metadata["namespace"],
            "pod": metadata["name"],
            "container": container["name"],
        }
        for container in pod["spec"]["containers"]
        for port in container.get("ports", ())
        if port.get("name") == endpoint["port"]
    ]


def proxied(pod: Manifest, port: int, path: str) -> str:
    """Path of a pod's page behind the API server, which stands in front of every pod."""
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}:{port}/proxy{path}"


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
    """Runs while the block does; `ever` asks it.

    Debian's Prometheus is built without the discovery of Kubernetes, so it reads its targets from files.
    """

    def __init__(
        self, folder: Path, jobs: list[Job], *, seconds: int = SCRAPE_SECONDS, rules: Path | None = None
    ) -> None:
        self.folder, self.jobs, self.seconds, self.rules = folder, jobs, seconds, rules
        self.api = api_server(folder)
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self.begin = time.time()
        self.ended = threading.Event()
        self.finder = threading.Thread(target=self._find, daemon=True)

    def __enter__(self) -> Self:
        """Start it and wait until it answers."""
        (self.folder / "prometheus.yaml").write_text(yaml.safe_dump(self._config()))
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
        try:
            wait_for("Prometheus to be ready", 30, self._ready)
        except BaseException:
            self._end()
            raise
        self.begin = time.time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self._end()

    def _end(self) -> None:
        self.ended.set()
        self.finder.join(timeout=30)
        self.process.terminate()
        self.process.wait(timeout=30)

    def _config(self) -> Manifest:
        timing = f"{self.seconds}s"
        return {
            "global": {"scrape_interval": timing, "scrape_timeout": timing},
            "rule_files": [str(self.rules)] if self.rules else [],
            "scrape_configs": [
                {
                    "job_name": job.name,
                    "honor_labels": job.honor_labels,
                    "scheme": "https",
                    "tls_config": self.api["tls"],
                    "file_sd_configs": [{"files": [str(self._file(job))]}],
                }
                for job in self.jobs
            ],
        }

    def _file(self, job: Job) -> Path:
        return self.folder / f"{job.name}.json"

    def _find(self) -> None:
        """Look for pods as often as they are scraped."""
        while not self.ended.wait(self.seconds):
            self._look()

    def _look(self) -> None:
        """Write the targets of now; Prometheus sees a file change by itself."""
        pods = json.loads(kubectl("get", "pods", "-A", "-o", "json"))["items"]
        running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        for job in self.jobs:
            places = [labels for pod in running for labels in job.places(pod)]
            targets = [{"targets": [self.api["address"]], "labels": labels} for labels in places]
            fresh = self._file(job).with_suffix(".new")
            fresh.write_text(json.dumps(targets))
            fresh.rename(self._file(job))

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
            {"query": query, "start": self.begin, "end": time.time(), "step": self.seconds}
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
