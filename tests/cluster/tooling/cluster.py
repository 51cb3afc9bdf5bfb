"""The kind cluster: created once, kept between runs, brought back after the daemon under it died."""

import json
import shutil
from datetime import datetime
from string import Template

from . import daemon, fingerprint, gotools, nodeimage
from .places import BIN, CACHE, CLUSTER, GPUS_PER_NODE, KUBECONFIG, MODELS, NODE, NODE_FILES
from .steps import StepFailedError, run, step, succeeds, wait_for

SETTINGS = CACHE / "kind.yaml"
AUDIT_POLICY = CACHE / "audit-policy.yaml"
"""A copy: the node mounts it again at each start, when the checkout may be gone."""
CREATED_FROM = CACHE / "cluster.made-from"
START_DEADLINE = 180
API_DEADLINE = 120


def up() -> None:
    """Bring the cluster to work: as it is, started again, or made new."""
    stock = daemon.choose()
    if stock:
        gotools.provide_clients()
    image = None if stock else nodeimage.build()
    wanted = _settle(image)
    state = _node_state()
    if state and not fingerprint.is_current(CREATED_FROM, wanted):
        print("    the cluster was made from other inputs")
        delete()
        state = None
    if state and not _comes_back(state):
        delete()
        state = None
    if not state:
        _create(image, wanted)
    with step("system pods and fake GPUs"):
        _advertise_gpus()
        _wait_for_dns()


def delete() -> None:
    """Delete the cluster."""
    with step("delete the cluster"):
        CREATED_FROM.unlink(missing_ok=True)
        if shutil.which("kind"):
            run("kind", "delete", "cluster", "--name", CLUSTER, "--kubeconfig", KUBECONFIG)
        elif _node_state():
            run("docker", "rm", "--force", "--volumes", NODE)


def kubectl(*arguments: str, deadline: float = 60) -> str:
    """Run kubectl against the cluster."""
    return run("kubectl", "--kubeconfig", KUBECONFIG, *arguments, deadline=deadline)


def is_running() -> bool:
    """Tell whether there is a node to put images onto."""
    return _node_state() == "running"


def _settle(image: str | None) -> str:
    """Write kind's settings, and return what identifies a cluster made from them."""
    text = Template((NODE_FILES / "kind.yaml").read_text()).substitute(
        CLUSTER=CLUSTER,
        OWN_CNI=str(image is not None).lower(),
        MODELS=MODELS,
        AUDIT_POLICY=AUDIT_POLICY,
    )
    SETTINGS.write_text(text)
    # In place: a mount of one file follows the file, not its name.
    AUDIT_POLICY.write_text((NODE_FILES / "audit-policy.yaml").read_text())
    identity = run("docker", "image", "inspect", "--format", "{{.Id}}", image) if image else "stock"
    return fingerprint.of_files([SETTINGS, AUDIT_POLICY], identity)


def _node_state() -> str | None:
    inspect = ("docker", "container", "ls", "--all", "--filter", f"name=^{NODE}$", "--format", "{{.State}}")
    return run(*inspect).strip() or None


def _create(image: str | None, wanted: str) -> None:
    with step("create the cluster"):
        if image:
            # kind makes its network anew: what is left of an old one may lack its bridge. In use it stays.
            succeeds("docker", "network", "rm", "kind")
        settings = ("--config", SETTINGS, "--kubeconfig", KUBECONFIG, "--wait", "180s")
        run("kind", "create", "cluster", *settings, *(("--image", image) if image else ()), deadline=300)
        CREATED_FROM.write_text(wanted)


def _comes_back(state: str) -> bool:
    """Start the node's container if it is stopped, and wait for a kubelet that reports again."""
    if state == "running" and _api_is_ready() and _kubelet_reports():
        return True
    try:
        with step("start the stopped cluster"):
            if state != "running":
                run("docker", "start", NODE)
            wait_for("the API server", _api_is_ready, deadline=START_DEADLINE)
            wait_for("the kubelet to report", _kubelet_reports, deadline=START_DEADLINE)
            kubectl("wait", "--for=condition=Ready", f"node/{NODE}", "--timeout=120s", deadline=130)
    except StepFailedError as failure:
        print(f"    it does not come back, a new one is made: {failure}")
        return False
    return True


def _api_is_ready() -> bool:
    return succeeds("kubectl", "--kubeconfig", KUBECONFIG, "get", "--raw", "/readyz", deadline=10)


def _kubelet_reports() -> bool:
    """Compare the node's lease with the container's start: the Ready condition alone may be from before it."""
    lease = ("get", "lease", NODE, "--namespace", "kube-node-lease", "--output", "jsonpath={.spec.renewTime}")
    return _are_since_start(*lease)


def _dns_runs() -> bool:
    """Tell whether DNS was started by this run of the node; a status from before it says Available too."""
    started = "jsonpath={.items[*].status.containerStatuses[*].state.running.startedAt}"
    pods = (
        "get",
        "pods",
        "--namespace",
        "kube-system",
        "--selector",
        "k8s-app=kube-dns",
        "--output",
        started,
    )
    return _are_since_start(*pods)


def _are_since_start(*query: str) -> bool:
    """Tell whether all times that kubectl answers are later than the start of the node's container."""
    started = run("docker", "container", "inspect", "--format", "{{.State.StartedAt}}", NODE).strip()
    try:
        times = kubectl(*query, deadline=15).split()
    except StepFailedError:
        return False
    # Docker writes nanoseconds, which fromisoformat refuses.
    since = datetime.fromisoformat(started[:19] + "+00:00")
    return bool(times) and all(datetime.fromisoformat(time) > since for time in times)


def _advertise_gpus() -> None:
    """Tell the scheduler of GPUs that are not there: kubelet keeps a resource that no device plugin owns."""
    resources = {"nvidia.com/gpu": str(GPUS_PER_NODE)}
    patch = json.dumps({"status": {"capacity": resources, "allocatable": resources}})
    kubectl("patch", "node", NODE, "--subresource=status", "--type=merge", "--patch", patch)


def _wait_for_dns() -> None:
    wait_for("DNS to be started", _dns_runs, deadline=API_DEADLINE)
    ready = (
        "wait",
        "--for=condition=Ready",
        "pod",
        "--selector",
        "k8s-app=kube-dns",
        "--namespace",
        "kube-system",
    )
    kubectl(*ready, f"--timeout={API_DEADLINE}s", deadline=API_DEADLINE + 10)


def describe() -> dict[str, str]:
    """Say in a few words how daemon and cluster are."""
    facts = {"cache": str(CACHE), "kubeconfig": str(KUBECONFIG), "programs": str(BIN)}
    facts["daemon"] = "ours" if daemon.is_running() else "not ours, or not running"
    state = _node_state() if succeeds("docker", "info", deadline=20) else None
    facts["node"] = state or "none"
    if state == "running":
        facts["api"] = "ready" if _api_is_ready() else "not ready"
    return facts
