"""The restricted pod security standard, as far as a pod of ours could break it."""

from typing import Any


def violations(pod: dict[str, Any]) -> list[str]:
    """Rules of the restricted standard that a pod breaks."""
    allowed = {"configMap", "emptyDir", "persistentVolumeClaim", "projected", "secret", "downwardAPI"}
    context = pod.get("securityContext", {})
    broken = [
        f"volume {volume['name']}" for volume in pod["volumes"] if not (set(volume) - {"name"}) <= allowed
    ]
    broken += [key for key in ("hostNetwork", "hostPID", "hostIPC", "hostUsers") if pod.get(key)]
    broken += [] if context.get("runAsNonRoot") is True and context.get("runAsUser") else ["runAsNonRoot"]
    broken += [] if context.get("seccompProfile") == {"type": "RuntimeDefault"} else ["seccompProfile"]
    for container in pod["containers"] + pod.get("initContainers", []):
        own = container["securityContext"]
        broken += [] if own["allowPrivilegeEscalation"] is False else ["allowPrivilegeEscalation"]
        broken += [] if own["capabilities"] == {"drop": ["ALL"]} else ["capabilities"]
        broken += ["hostPort"] if any("hostPort" in port for port in container.get("ports", ())) else []
    return broken
