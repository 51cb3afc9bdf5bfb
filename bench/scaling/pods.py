"""Nodes and pods without machines: Kubernetes' own controllers make and place the pods, KWOK plays their kubelets.

KWOK comes from its Go module, with the stages that it has built in: a pod that is placed runs and is ready at once. Each has an
address of loopback, where `bench.scaling.agents` answers for its agent.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import requests
from tests.cluster.tooling.places import BIN, GPUS_PER_NODE
from tests.support.ports import free_ports

from bench.beside import process
from bench.built import built
from bench.scaling.apiserver import ApiServer, needed
from bench.scaling.load import post, until

ADDRESSES = "127.78.0.1/16"
MODULE = Path(__file__).parent / "kwok"
FAKE = "kwok.x-k8s.io/node"
"""Annotation of the nodes that KWOK plays."""
UNTHROTTLED = ("--kube-api-qps=2000", "--kube-api-burst=2000", "--leader-elect=false", "--secure-port=0")
"""A cluster's controllers wait for their turn by default; here the API server is to be the only bound."""
CONTROLLERS = "statefulset-controller,disruption-controller,node-lifecycle-controller"
"""Those that act on what belongs to a server, and the one that opens nodes to pods."""
NODES_SECONDS = 60.0
VOLUME = {
    "metadata": {"name": "models"},
    "spec": {
        "accessModes": ["ReadOnlyMany"],
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": "models.example", "volumeHandle": "models"},
    },
}


@contextlib.contextmanager
def pods_are_made(api: ApiServer, nodes: int) -> Iterator[None]:
    """Run so many nodes of eight GPUs, and what makes pods and puts them there."""
    needed("kube-controller-manager", "kube-scheduler")
    session, given = api.session(), f"--kubeconfig={api.kubeconfig}"
    post(session, f"{api.url}/api/v1/persistentvolumes", VOLUME)
    for number in range(nodes):
        post(session, f"{api.url}/api/v1/nodes", _node(f"node-{number}"))
    (api.folder / "kwok.yaml").write_text(json.dumps(_kwok()))  # JSON is YAML
    commands = {
        "controller-manager": [str(BIN / "kube-controller-manager"), given, f"--controllers={CONTROLLERS}", *UNTHROTTLED],
        "scheduler": [str(BIN / "kube-scheduler"), given, *UNTHROTTLED],
        "kwok": [built(MODULE, "kwok"), given, f"--config={api.folder}/kwok.yaml", "--node-ip=127.0.0.1"],
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        for name, command in commands.items():
            stack.enter_context(process(command, api.folder / f"{name}.log"))
        said = f"{nodes} nodes are not ready after {NODES_SECONDS:.0f} s"
        until(lambda: _ready(api, session) == nodes, NODES_SECONDS, said)
        yield


def _node(name: str) -> dict[str, object]:
    has = {"cpu": "128", "memory": "2Ti", "ephemeral-storage": "8Ti", "pods": "110", "nvidia.com/gpu": str(GPUS_PER_NODE)}  # fmt: skip
    named = {"name": name, "annotations": {FAKE: "fake"}, "labels": {"kubernetes.io/hostname": name}}
    return {"metadata": named, "status": {"allocatable": has, "capacity": has}}


def _kwok() -> dict[str, object]:
    options = {
        "enableCRDs": [],
        "manageAllNodes": False,
        "manageNodesWithAnnotationSelector": f"{FAKE}=fake",
        "nodeLeaseDurationSeconds": 40,
        "nodeLeaseParallelism": 4,
        "nodePlayStageParallelism": 4,
        "podPlayStageParallelism": 16,
        "serverAddress": f"127.0.0.1:{free_ports(1)[0]}",
        "cidr": ADDRESSES,
    }
    return {"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration", "options": options}


def _ready(api: ApiServer, session: requests.Session) -> int:
    found = session.get(f"{api.url}/api/v1/nodes", timeout=10).json()["items"]
    return sum(_is_ready(item) for item in found)


def _is_ready(item: dict[str, object]) -> bool:
    conditions = item["status"].get("conditions", ())  # type: ignore[attr-defined]
    return any((said["type"], said["status"]) == ("Ready", "True") for said in conditions)
