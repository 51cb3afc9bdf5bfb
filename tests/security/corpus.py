"""Hostile SpecDecodeServers: what a tenant with the right to create them may try, by name."""

from __future__ import annotations

from typing import Any

from tests.support.merge import merged

Spec = dict[str, Any]

MINIMAL: dict[str, Any] = {
    "apiVersion": "specdec.dev/v1alpha1",
    "kind": "SpecDecodeServer",
    "metadata": {"name": "hostile", "namespace": "default", "uid": "u-1", "generation": 1},
    "spec": {"target": {"model": "pvc://models/target"}, "drafter": {"model": "pvc://models/v1"}},
}

_URIS = {
    "an absolute path": "/etc/passwd",
    "an absolute path in the URI": "pvc:///etc/passwd",
    "a claim of dots": "pvc://../secrets",
    "dots at the end": "pvc://models/..",
    "dots in the middle": "pvc://models/a/../../../etc",
    "dots inside a name": "pvc://models/a..b",
    "percent-encoded dots": "pvc://models/%2e%2e/etc",
    "backslashes": "pvc://models/..\\..\\etc",
    "an empty segment": "pvc://models//etc",
    "a hidden folder": "pvc://models/.ssh",
    "an option as a folder": "pvc://models/--trust-remote-code",
    "fullwidth dots": "pvc://models/\uff0e\uff0e/etc",
    "a two-dot leader": "pvc://models/\u2025/etc",
    "a direction override": "pvc://models/a\u202egnp",
    "a zero-width space": "pvc://models/a\u200bb",
    "a homoglyph": "pvc://models/\u0430",
    "a line feed at the end": "pvc://models/v1\n",
    "a line feed inside": "pvc://models/v1\n--host=0.0.0.0",
    "a terminal's escape": "pvc://models/\x1b[2J",
    "a null": "pvc://models/v1\x00.safetensors",
    "a space": "pvc://models/a b",
    "a substitution": "pvc://models/$(id)",
    "backquotes": "pvc://models/`id`",
    "a second command": "pvc://models/v1;id",
    "a pipe": "pvc://models/v1|id",
    "a variable": "pvc://models/${SPECDEC_SECRET}",
    "quotes": "pvc://models/'\"",
    "a query": "pvc://models/v1?x=1",
    "a fragment": "pvc://models/v1#x",
    "a user": "pvc://models@team-b/v1",
    "a port": "pvc://models:8080/v1",
    "a claim with a capital": "pvc://Models/v1",
    "a claim that is an option": "pvc://-models/v1",
    "a claim of 64 letters": f"pvc://{'a' * 64}/v1",
    "another scheme's case": "PVC://models/v1",
    "the metadata service": "http://169.254.169.254/latest/meta-data",
    "a server inside": "https://kubernetes.default.svc/api",
    "a file": "file:///etc/passwd",
    "a bucket": "s3://bucket/key",
    "nine segments": "pvc://models/" + "/".join("abcdefghi"),
    "513 characters": "pvc://models/" + "a" * 500,
    "a megabyte": "pvc://models/" + "a" * 1_000_000,
    "nothing": "",
}
_WORDS = {
    "an option": "--host=0.0.0.0",
    "two arguments": "kimi --api-key x",
    "a line feed": "kimi\nevil",
    "a terminal's escape": "kimi\x1b]0;x\x07",
    "a substitution": "$(id)",
    "a direction override": "kimi\u202e",
    "a forged log line": 'x","level":"error","message":"rolled back',
    "a metric": 'x"} 1\nspecdec_leader 0',
    "a megabyte": "a" * 1_000_000,
}
_IMAGES = {
    "an option": "--privileged",
    "a space": "registry.example/x --rm",
    "a capital registry": "Evil.example/x",
    "a substitution": "registry.example/$(id)",
    "a line feed": "registry.example/x\nevil",
    "too long": "registry.example/" + "a" * 500,
    "a unicode letter": "registry.ex\u0430mple/x",
}

REFUSED: dict[str, Spec] = {
    **{f"target.model: {name}": {"target": {"model": uri}} for name, uri in _URIS.items()},
    **{f"drafter.model: {name}": {"drafter": {"model": uri}} for name, uri in _URIS.items() if len(uri) < 99},
    **{f"servedName: {name}": {"target": {"servedName": word}} for name, word in _WORDS.items()},
    **{f"drafter.version: {name}": {"drafter": {"version": word}} for name, word in _WORDS.items()},
    **{f"engine.image: {name}": {"engine": {"image": image}} for name, image in _IMAGES.items()},
    "a share with an argument": {"engine": {"memFractionStatic": "0.9 --trust-remote-code"}},
    "a share with a line feed": {"engine": {"memFractionStatic": "0.9\n"}},
    "a share in other digits": {"engine": {"memFractionStatic": "0.\u0669"}},
    "a context with an argument": {"engine": {"contextLength": "128 --x"}},
    "a context below nothing": {"engine": {"contextLength": -1}},
    "no GPUs": {"engine": {"tensorParallel": 0}},
    "a thousand GPUs": {"engine": {"tensorParallel": 1000}},
    "a million requests": {"engine": {"maxRunningRequests": 1_000_000}},
    "steps without end": {"speculation": {"numSteps": 1 << 31}},
    "no steps": {"speculation": {"numSteps": 0}},
    "replicas without end": {"replicas": 1 << 31},
    "history without end": {"revisionHistoryLimit": 100_000},
    "a drain of a year": {"engine": {"drainTimeoutSeconds": 31_536_000}},
    "a confirmation that never ends": {"rollout": {"confirmWithinSeconds": 1 << 31}},
    "a confirmation at once": {"rollout": {"confirmWithinSeconds": 0}},
    "an endless cache claim": {"engine": {"cacheClaim": "a" * 64}},
    "a cache claim elsewhere": {"engine": {"cacheClaim": "team-b/cache"}},
    "prompts of another namespace": {"engine": {"warmupPrompts": "team-b/prompts"}},
    "a cache claim of dots": {"engine": {"cacheClaim": ".."}},
    "a volume that is a path": {"engine": {"volumes": ["/etc"]}},
    "a volume of the host": {"engine": {"volumes": [{"hostPath": {"path": "/"}}]}},
    "nine volumes": {"engine": {"volumes": list("abcdefghi")}},
    "a secret elsewhere": {"engine": {"imagePullSecrets": ["kube-system/token"]}},
    "a secret of dots": {"engine": {"imagePullSecrets": ["../token"]}},
    "the class of the node's own pods": {
        "engine": {"scheduling": {"priorityClassName": "system-node-critical"}}
    },
    "the class of the cluster's own pods": {
        "engine": {"scheduling": {"priorityClassName": "system-cluster-critical"}}
    },
    "a priority class in words": {"engine": {"scheduling": {"priorityClassName": "a b"}}},
    "a runtime class that is a path": {"engine": {"scheduling": {"runtimeClassName": "../runc"}}},
    "a toleration of its own kind": {"engine": {"scheduling": {"tolerations": [{"operator": "Lt"}]}}},
    "seventeen tolerations": {"engine": {"scheduling": {"tolerations": [{"operator": "Exists"}] * 17}}},
    "seventeen node labels": {"engine": {"scheduling": {"nodeSelector": {f"k{n}": "v" for n in range(17)}}}},
    "a node label of 64": {"engine": {"scheduling": {"nodeSelector": {"k": "v" * 64}}}},
    "seventeen pod labels": {"engine": {"podLabels": {f"k{n}": "v" for n in range(17)}}},
    "nine resources": {"engine": {"resources": {"limits": {f"k{n}": "1" for n in range(9)}}}},
    "a quantity in words": {"engine": {"resources": {"limits": {"cpu": "1; id"}}}},
    "a negative quantity": {"engine": {"resources": {"requests": {"cpu": "-1"}}}},
    "a quantity of 21 digits": {"engine": {"sharedMemory": "9" * 21}},
    "an exponent": {"engine": {"sharedMemory": "1e99"}},
    "a floor that is no number": {"acceptance": {"minAcceptLength": "NaN"}},
    "an endless floor": {"acceptance": {"minAcceptLength": "1e9"}},
    "a rate above all": {"acceptance": {"minAcceptRate": "1.1"}},
    "no requests needed": {"acceptance": {"minRequests": 0}},
    "a preflight of its own": {"preflight": {"mode": "Off\nEnforce"}},
    "a repair of its own": {"preflight": {"repair": "Always"}},
    "a check that is an option": {"preflight": {"skipChecks": ["--all"]}},
    "a check with a line feed": {"preflight": {"skipChecks": ["HeadTied\nFileMissing"]}},
    "a check of 65 letters": {"preflight": {"skipChecks": ["A" * 65]}},
    "33 checks": {"preflight": {"skipChecks": ["HeadTied"] * 33}},
    "a mode of its own": {"mode": "Off\nEnforce"},
    "a switch that YAML read": {"drafting": False},
    "a pin of 64": {"rollout": {"pinnedRevision": "a" * 64}},
}
"""What the CRD refuses."""

SMUGGLED: dict[str, Spec] = {
    f"engine.{name}": {"engine": {name: value}}
    for name, value in {
        "env": [{"name": "LD_PRELOAD", "value": "/models/x.so"}],
        "envFrom": [{"secretRef": {"name": "token"}}],
        "extraEnv": {"PYTHONPATH": "/models/models", "SGLANG_ENABLE_TORCH_COMPILE": "1"},
        "args": ["--trust-remote-code"],
        "extraArgs": ["--enable-custom-logit-processor"],
        "command": ["/bin/sh", "-c", "id"],
        "securityContext": {"privileged": True},
        "serviceAccountName": "specdec-operator",
        "automountServiceAccountToken": True,
        "hostNetwork": True,
        "hostPID": True,
        "podTemplate": {"spec": {"hostNetwork": True}},
        "initContainers": [{"name": "x", "image": "evil.example/x"}],
        "sidecars": [{"name": "x", "image": "evil.example/x"}],
        "volumeMounts": [{"name": "x", "mountPath": "/"}],
        "nodeName": "control-plane",
    }.items()
} | {
    "spec.template": {"template": {"spec": {"hostNetwork": True}}},
    "target.secretRef": {"target": {"secretRef": {"name": "token", "namespace": "kube-system"}}},
    "drafter.namespace": {"drafter": {"namespace": "kube-system"}},
    "engine.scheduling.nodeName": {"engine": {"scheduling": {"nodeName": "control-plane"}}},
}
"""Fields that there are not: kubectl is told so, and whatever comes past it is dropped."""

HARMLESS: dict[str, Spec] = {
    "another namespace's name as a claim": {"drafter": {"model": "pvc://kube-system/v1"}},
    "an image beside the prefix": {"engine": {"image": "registry.example.evil/x:1"}},
    "an image that climbs out of the prefix": {"engine": {"image": "registry.example/../evil/x:1"}},
    "an image that is a URL": {"engine": {"image": "https://evil.example/x"}},
    "an image with two digests": {"engine": {"image": "registry.example/x@sha256:1@evil"}},
    "our own labels": {
        "engine": {"podLabels": {"specdec.dev/server": "other", "specdec.dev/restart-hash": "x"}}
    },
    "the selector's labels": {
        "engine": {
            "podLabels": {"app.kubernetes.io/name": "specdec-operator", "app.kubernetes.io/instance": "other"}
        }
    },
    "labels of Kubernetes": {
        "engine": {
            "podLabels": {
                "statefulset.kubernetes.io/pod-name": "x",
                "x.k8s.io/y": "z",
                "kubernetes.io/a": "b",
            }
        }
    },
    "a subdomain of ours": {"engine": {"podLabels": {"evil.specdec.dev/server": "other"}}},
    "a label that is a path": {"engine": {"podLabels": {"../../x": "y"}}},
    "a pin with a line feed": {"rollout": {"pinnedRevision": "x\nforged"}},
    "a pin with a terminal's escape": {"rollout": {"pinnedRevision": "x\x1b[2J\u202e"}},
    "a node label that is a path": {"engine": {"scheduling": {"nodeSelector": {"../x": "y"}}}},
    "every taint tolerated": {"engine": {"scheduling": {"tolerations": [{"operator": "Exists"}]}}},
    "a resource of its own": {"engine": {"resources": {"limits": {"evil.example/device": "1"}}}},
}
"""What the schema can't refuse: nothing comes of it."""


def server(spec: Spec) -> dict[str, Any]:
    """A server with those fields."""
    return merged(MINIMAL, {"spec": spec})
