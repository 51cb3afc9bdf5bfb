"""The operator as a process of this machine, for one namespace of a real API server."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


@dataclass
class OperatorProcess:
    """One life after the other of the operator of one namespace, which holds its Lease and key as well."""

    folder: Path
    namespace: str
    image: str
    _process: asyncio.subprocess.Process | None = None

    async def start(self, url: str) -> None:
        """Begin a life that reaches the API server under a URL, once the one before has ended."""
        await self.ended()
        kubeconfig = self.folder / f"{self.namespace}.kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(_kubeconfig(url)))
        environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "PYTHONPATH": str(ROOT / "operator"),
            "SPECDEC_DEFAULT_IMAGE": self.image,
            "SPECDEC_NAMESPACE": self.namespace,
            "SPECDEC_NAMESPACES": self.namespace,
            "SPECDEC_HTTP_HOST": "127.0.0.1",
            "SPECDEC_HTTP_PORT": "0",
            "SPECDEC_LOG_FORMAT": "plain",
        }
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "specdec.controller.main", env=environment, stdout=log, stderr=log
            )

    @property
    def log(self) -> Path:
        """What it said in all its lives."""
        return self.folder / f"{self.namespace}.log"

    def kill(self) -> None:
        """End it at once, with nothing finished or given back."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def ended(self) -> None:
        """Wait until it is gone."""
        if self._process is not None:
            await self._process.wait()


def _kubeconfig(url: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "gate", "cluster": {"server": url}}],
        "users": [{"name": "operator", "user": {}}],
        "contexts": [{"name": "gate", "context": {"cluster": "gate", "user": "operator"}}],
        "current-context": "gate",
    }
