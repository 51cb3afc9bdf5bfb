"""What the operator's role lacks, found before anything is watched: each gap is one sentence.

It tries to list no object of each kind, and to watch. (An access review would be a write to the API server, and at rest
the operator writes nothing.) Verbs that write show themselves when they are used.
"""

from __future__ import annotations

import asyncio
import logging

from specdec.controller.kinds import CHILDREN, SPEC_DECODE_SERVER, Kind, Need
from specdec.controller.kube import NOTHING, ForbiddenError, Kube, KubeError

log = logging.getLogger(__name__)

RETRY_SECONDS = 15.0


async def settle(kube: Kube, namespaces: tuple[str, ...]) -> frozenset[Kind]:
    """Wait until every essential kind can be listed and watched, and name the others that can't."""
    while True:
        refused = {
            kind: sentence
            for kind in (SPEC_DECODE_SERVER, *CHILDREN)
            if (sentence := await _refusal(kube, kind, namespaces))
        }
        for sentence in refused.values():
            log.warning("%s", sentence)
        if not any(kind.need is Need.ESSENTIAL for kind in refused):
            return frozenset(refused)
        await asyncio.sleep(RETRY_SECONDS)


async def _refusal(kube: Kube, kind: Kind, namespaces: tuple[str, ...]) -> str:
    """Say why a kind can't be listed or watched; "" if it can."""
    for namespace in namespaces or ("",):
        try:
            await kube.list(kind, namespace, kind.label, NOTHING)
            await kube.try_watch(kind, namespace, kind.label)
        except ForbiddenError as error:
            return str(error)
        except KubeError as error:
            if error.status == 404 and kind is SPEC_DECODE_SERVER:
                return "the API server doesn't know SpecDecodeServers: apply crds/ first"
            return str(error)
    return ""
