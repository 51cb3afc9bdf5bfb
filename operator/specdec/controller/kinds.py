"""The Kubernetes kinds that the operator reads and writes, and where the API serves them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from specdec.api.base import API_VERSION, KIND, PLURAL
from specdec.resources.labels import REVISION_OF, SERVER


class Need(StrEnum):
    """What the operator does without a watch on a kind."""

    ESSENTIAL = "Essential"
    """Nothing: it would decide blindly."""
    USEFUL = "Useful"
    """It applies such objects without seeing what became of them."""


@dataclass(frozen=True)
class Kind:
    """One kind."""

    kind: str
    api_version: str
    plural: str
    label: str = ""
    """Watches ask for objects with this label; its value is the server's name."""
    need: Need | None = None
    """None is not watched."""
    verbs: tuple[str, ...] = ()
    """What the operator does with it, as RBAC verbs: the chart's roles grant these and no others."""

    @property
    def group(self) -> str:
        """API group ("" is the core group)."""
        return self.api_version.rpartition("/")[0]

    @property
    def root(self) -> str:
        """Path of the group and version."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Path of one object, or of a collection."""
        parts = [self.root, *(["namespaces", namespace] if namespace else []), self.plural, name, subresource]
        return "/".join(part for part in parts if part)


_WATCH = ("get", "list", "watch")
_APPLY = (*_WATCH, "create", "patch")

SPEC_DECODE_SERVER = Kind(KIND, API_VERSION, PLURAL, need=Need.ESSENTIAL, verbs=_WATCH)
POD = Kind("Pod", "v1", "pods", SERVER, Need.ESSENTIAL, (*_WATCH, "delete"))
STATEFUL_SET = Kind("StatefulSet", "apps/v1", "statefulsets", SERVER, Need.ESSENTIAL, _APPLY)
CONFIG_MAP = Kind("ConfigMap", "v1", "configmaps", SERVER, Need.ESSENTIAL, _APPLY)
CONTROLLER_REVISION = Kind(
    "ControllerRevision",
    "apps/v1",
    "controllerrevisions",
    REVISION_OF,
    Need.ESSENTIAL,
    (*_APPLY, "delete"),
)
SERVICE = Kind("Service", "v1", "services", SERVER, Need.USEFUL, _APPLY)
DISRUPTION_BUDGET = Kind(
    "PodDisruptionBudget", "policy/v1", "poddisruptionbudgets", SERVER, Need.USEFUL, _APPLY
)
JOB = Kind("Job", "batch/v1", "jobs", SERVER, Need.USEFUL, _APPLY)
CLAIM = Kind("PersistentVolumeClaim", "v1", "persistentvolumeclaims", verbs=("get",))
EVENT = Kind("Event", "v1", "events", verbs=("create",))
LEASE = Kind("Lease", "coordination.k8s.io/v1", "leases", verbs=("get", "create", "update"))
SECRET = Kind("Secret", "v1", "secrets", verbs=("get", "create"))

CHILDREN = (POD, STATEFUL_SET, CONFIG_MAP, CONTROLLER_REVISION, SERVICE, DISRUPTION_BUDGET, JOB)
"""What belongs to a server, by label."""

KINDS = {kind.kind: kind for kind in (SPEC_DECODE_SERVER, *CHILDREN, CLAIM, EVENT, LEASE, SECRET)}
