"""Work on volumes, which may hang for ever: each piece in a daemon thread of its own, with a deadline.

A pool's threads would be used up by a few hung reads, and joined at the agent's end.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Given = ParamSpec("Given")
Result = TypeVar("Result")


async def on_volume(
    seconds: float, work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs
) -> Result:
    """Do blocking work off the event loop.

    Raises
    ------
    TimeoutError
        It took longer; its thread is left to itself.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: Exception | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, failure = None, None
        try:
            result = work(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - it is raised where the work is awaited
            failure = error
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, name="volume", daemon=True).start()
    return await asyncio.wait_for(done, seconds)
