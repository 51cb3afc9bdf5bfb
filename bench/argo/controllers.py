"""Argo Rollouts' controller and a Prometheus as processes of this machine, beside the kind cluster.

Argo Rollouts is built from its Go module, Prometheus is Debian's. It scrapes the engines through the API server, as nothing
else reaches their pods from here; the file of its targets is written anew every second.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import requests
from tests.cluster.tooling.steps import StepFailedError, run, step, wait_for
from tests.support.kubectl import CACHE, KUBECONFIG, command, items, kubectl

from bench.beside import each_second, process

MODULE = Path(__file__).parent
PROGRAM = CACHE / "bin" / "rollouts-controller"
PROMETHEUS = "http://127.0.0.1:9090"
SCRAPE_SECONDS = 2
BUILD_SECONDS = 1500


def build() -> None:
    """Build Argo Rollouts' controller, once."""
    if PROGRAM.exists():
        return
    with step("build Argo Rollouts from its Go module"):
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
        run("go", "build", "-trimpath", "-o", f"{PROGRAM.parent}/", "tool", cwd=MODULE, env=environment, deadline=BUILD_SECONDS)  # fmt: skip


def crds() -> None:
    """Install Argo Rollouts' CRDs out of its module."""
    found = run("go", "list", "-m", "-f", "{{.Dir}}", "github.com/argoproj/argo-rollouts", cwd=MODULE).strip()
    kubectl("apply", "--server-side", "-k", f"{found}/manifests/crds")
    kinds = ("rollouts", "analysisruns", "analysistemplates")
    names = [f"crd/{kind}.argoproj.io" for kind in kinds]
    kubectl("wait", "--for=condition=Established", *names, "--timeout=30s")


@contextlib.contextmanager
def running(namespace: str, folder: Path) -> Iterator[None]:
    """Run both for one namespace, and end them afterwards."""
    prometheus = shutil.which("prometheus")
    if prometheus is None:
        raise StepFailedError("prometheus is not installed: `apt-get install prometheus`")
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(_api_proxy())
        stack.enter_context(_targets(namespace, folder / "targets.json"))
        (folder / "prometheus.yml").write_text(json.dumps(_scraping(port)))
        stored = [f"--storage.tsdb.path={folder}/data", "--web.listen-address=127.0.0.1:9090"]
        configured = f"--config.file={folder}/prometheus.yml"
        stack.enter_context(process([prometheus, configured, *stored], folder / "prometheus.log"))
        argo = [
            str(PROGRAM),
            f"--kubeconfig={KUBECONFIG}",
            "--leader-elect=false",
            f"--namespace={namespace}",
            "--namespaced",
        ]
        argo += ["--metricsport=18090", "--healthzPort=18080"]
        stack.enter_context(process(argo, folder / "argo.log"))
        wait_for("Prometheus", _prometheus_answers, deadline=30)
        yield


def _prometheus_answers() -> bool:
    with contextlib.suppress(requests.ConnectionError):
        return requests.get(f"{PROMETHEUS}/-/ready", timeout=2).ok
    return False


@contextlib.contextmanager
def _api_proxy() -> Iterator[int]:
    """Open a way to the API server that asks for no credentials, and yield its port."""
    with subprocess.Popen(command("proxy", "--port=0"), stdout=subprocess.PIPE, text=True) as child:
        try:
            yield int(_line(child).rpartition(":")[2])
        finally:
            child.terminate()


def _line(child: subprocess.Popen[str]) -> str:
    return child.stdout.readline() if child.stdout else ""


def _scraping(port: int) -> dict[str, object]:
    """Configure Prometheus; JSON is YAML."""
    path = {"source_labels": ["path"], "target_label": "__metrics_path__"}
    engine = {
        "job_name": "engine",
        "file_sd_configs": [{"files": ["targets.json"], "refresh_interval": "1s"}],
        "relabel_configs": [path, {"target_label": "__address__", "replacement": f"127.0.0.1:{port}"}],
    }
    interval = f"{SCRAPE_SECONDS}s"
    return {"global": {"scrape_interval": interval, "scrape_timeout": interval}, "scrape_configs": [engine]}


@contextlib.contextmanager
def _targets(namespace: str, file: Path) -> Iterator[None]:
    """Keep the list of the engines that run, with the hash of their template."""

    def look() -> None:
        found = []
        for pod in items("pods", namespace, "app=engine"):
            metadata = pod["metadata"]
            path = f"/api/v1/namespaces/{namespace}/pods/{metadata['name']}:30000/proxy/metrics"
            labels = {
                "pod": metadata["name"],
                "hash": metadata["labels"].get("rollouts-pod-template-hash", ""),
                "path": path,
            }
            if pod["status"].get("phase") == "Running":
                found.append({"targets": [metadata["name"]], "labels": labels})
        draft = file.with_suffix(".new")
        draft.write_text(json.dumps(found))
        draft.replace(file)

    file.write_text("[]")
    with each_second(look):
        yield
