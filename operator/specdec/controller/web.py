"""The operator's own HTTP: /metrics for Prometheus, /healthz for the kubelet."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

Complaint = Callable[[], str]
"""Says what is wrong; "" if nothing is."""


async def serve(host: str, port: int, complaint: Complaint) -> web.AppRunner:
    """Serve until the runner is cleaned up."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def healthz(_: web.Request) -> web.Response:
        wrong = complaint()
        return web.Response(text=wrong or "ok", status=503 if wrong else 200)

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz)])
    runner = web.AppRunner(app, handle_signals=False, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner
