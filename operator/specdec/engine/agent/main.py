"""The agent's process: PID 1 of an engine pod, console script `specdec-agent`; `specdec-agent preflight` is a Job's."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

from specdec.engine.agent import preflight
from specdec.engine.agent.board import Board
from specdec.engine.agent.orphans import adopt
from specdec.engine.agent.settings import Settings, SettingsError, from_environment
from specdec.engine.agent.supervisor import Supervisor
from specdec.engine.agent.vitals import Vitals
from specdec.engine.protocol import Phase

if TYPE_CHECKING:
    from specdec.engine.agent.server import ApiServer

log = logging.getLogger("specdec.agent")

API_SECONDS = 2.0
"""The API waits at most so long for SGLang's process to be started."""


def main() -> int:
    """Run until a signal ends it, and leave nothing running."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="[%(asctime)s] agent %(levelname)s %(message)s"
    )
    if sys.argv[1:] == ["preflight"]:
        return preflight.main()
    try:
        settings = from_environment(os.environ)
        settings.state_dir.mkdir(parents=True, exist_ok=True)
        settings.run_dir.mkdir(parents=True, exist_ok=True)
        listening = socket.create_server((settings.agent_host, settings.agent_port), backlog=128)
    except (SettingsError, OSError) as error:
        log.error("the agent can't start: %s", error)  # noqa: TRY400 - the sentence says it all
        return 1
    adopt()
    return asyncio.run(serve(settings, listening))


async def serve(settings: Settings, listening: socket.socket) -> int:
    """Supervise until SIGTERM, then drain and stop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    supervisor = Supervisor(settings, Board(settings.pod_uid), Vitals())
    work = {asyncio.create_task(supervisor.run()), asyncio.create_task(supervisor.housekeeping())}
    api = await _api(supervisor, listening)
    asked = asyncio.create_task(stop.wait())
    await asyncio.wait({asked, *work}, return_when=asyncio.FIRST_COMPLETED)
    if asked.done():
        log.info("asked to stop: draining")
        await supervisor.drain()
    for task in (asked, *work):
        task.cancel()
    ends = await asyncio.gather(*work, return_exceptions=True)
    api.stop()
    bad = [end for end in ends if isinstance(end, Exception)]
    for end in bad:
        log.error("the agent's own work failed", exc_info=end)
    return 1 if bad else 0


async def _api(supervisor: Supervisor, listening: socket.socket) -> ApiServer:
    """Serve the API once SGLang's process runs, or can't: importing it would hold that back, and who asks can wait."""
    board = supervisor.board
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(API_SECONDS):
            while (now := board.status).phase is Phase.STAGING:
                await board.wait(now.serial, API_SECONDS)
    loop = asyncio.get_running_loop()

    def start() -> ApiServer:
        from specdec.engine.agent.server import ApiServer, build_app

        api = ApiServer(build_app(supervisor, loop), listening)
        api.start()
        return api

    return await asyncio.to_thread(start)


if __name__ == "__main__":
    sys.exit(main())
