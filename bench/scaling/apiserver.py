"""A real kube-apiserver with its etcd, as plain processes on loopback, gone with the block that began it."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import requests
import urllib3
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.cluster.tooling.places import BIN
from tests.support.ports import free_ports

from bench.beside import process

TOKEN = "benchmark"  # noqa: S105 - it opens an API server that lives for minutes on loopback
START_SECONDS = 90.0


@dataclass(frozen=True)
class ApiServer:
    """Where it listens, and a kubeconfig for it."""

    url: str
    kubeconfig: Path
    folder: Path
    """For what else writes files beside it; gone with it."""

    def session(self) -> requests.Session:
        """Connection with all rights."""
        urllib3.disable_warnings()
        session = requests.Session()
        session.verify, session.trust_env = False, False
        session.headers["Authorization"] = f"Bearer {TOKEN}"
        return session

    def writes(self) -> int:
        """Count the writes so far, those to Leases and Nodes apart: they are signs of life."""
        text = self.session().get(f"{self.url}/metrics", timeout=30).text
        lines = [line for line in text.splitlines() if line.startswith("apiserver_request_total{")]
        return sum(int(float(line.rpartition(" ")[2])) for line in lines if _is_write(line))


def _is_write(line: str) -> bool:
    changes = any(f'verb="{verb}"' in line for verb in ("POST", "PUT", "PATCH", "APPLY", "DELETE"))
    return changes and not any(f'resource="{name}"' in line for name in ("leases", "nodes"))


@contextlib.contextmanager
def api_server() -> Iterator[ApiServer]:
    """Begin one with nothing in it."""
    needed("etcd", "kube-apiserver")
    with tempfile.TemporaryDirectory(prefix="specdec-scale-") as folder, contextlib.ExitStack() as stack:
        place = Path(folder)
        client, peer, secure = free_ports(3)
        stack.enter_context(process(_etcd(place, client, peer), place / "etcd.log"))
        stack.enter_context(process(_kube_apiserver(place, client, secure), place / "apiserver.log"))
        url = f"https://127.0.0.1:{secure}"
        found = ApiServer(url, _kubeconfig(place, url), place)
        _wait(found, place / "apiserver.log")
        yield found


def _etcd(place: Path, client: int, peer: int) -> list[str]:
    return [
        str(BIN / "etcd"),
        f"--data-dir={place}/etcd",
        f"--listen-client-urls=http://127.0.0.1:{client}",
        f"--advertise-client-urls=http://127.0.0.1:{client}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        "--unsafe-no-fsync",
    ]


def _kube_apiserver(place: Path, client: int, secure: int) -> list[str]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    (place / "accounts.pem").write_bytes(pem)
    (place / "tokens.csv").write_text(f"{TOKEN},admin,admin,system:masters\n")
    return [
        str(BIN / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{client}",
        f"--secure-port={secure}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={place}/certificates",
        f"--service-account-key-file={place}/accounts.pem",
        f"--service-account-signing-key-file={place}/accounts.pem",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--token-auth-file={place}/tokens.csv",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",
        "--service-cluster-ip-range=10.96.0.0/12",
    ]


def needed(*programs: str) -> None:
    """Say what is missing of Kubernetes' own programs."""
    missing = [name for name in programs if not (BIN / name).exists()]
    if missing:
        raise SystemExit(
            f"{' and '.join(missing)} not in {BIN}: `python -m tests.cluster up` builds them for its node"
        )


def _kubeconfig(place: Path, url: str) -> Path:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "scale", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "admin", "user": {"token": TOKEN}}],
        "contexts": [{"name": "scale", "context": {"cluster": "scale", "user": "admin"}}],
        "current-context": "scale",
    }
    path = place / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path


def _wait(found: ApiServer, log: Path) -> None:
    deadline, session = time.monotonic() + START_SECONDS, found.session()
    while time.monotonic() < deadline:
        with contextlib.suppress(requests.ConnectionError):
            if session.get(f"{found.url}/readyz", timeout=5).ok:
                return
        time.sleep(0.2)
    raise SystemExit(f"kube-apiserver is not ready after {START_SECONDS:.0f} s: {log.read_text()[-500:]}")
