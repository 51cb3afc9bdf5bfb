"""Which revision a start obeys: the mounted plan or what commands changed since, whichever is newer.

A mounted ConfigMap lags by up to 90 s, so the agent keeps the highest assignment that it has seen in a
file of its own. A candidate never gets into that file: every start begins with the promoted drafter.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pydantic import ValidationError

from specdec.engine.protocol import PLAN_KEY, DrafterRef, Drafting, LaunchPlan, Message

if TYPE_CHECKING:
    from pathlib import Path

STATE_FILE = "state.json"


class StateNotWrittenError(Exception):
    """What the agent must not forget could not be written down."""


class PlanUnreadableError(Exception):
    """The mounted plan is missing or malformed."""


class Obeyed(Message):
    """What the agent obeys: kept in the state file, newest assignment first."""

    assignment: int
    epoch: int = 0
    revision: str
    """The promoted revision."""
    drafter: DrafterRef | None = None
    drafting: Drafting = Drafting.ON


def obeyed(plan: LaunchPlan, kept: Obeyed | None) -> Obeyed:
    """Decide between plan and state: the higher assignment wins, commands win a tie.

    A plan never lowers the epoch: that is a fence against an older operator.
    """
    if kept is not None and kept.assignment >= plan.assignment:
        return kept
    return Obeyed(
        assignment=plan.assignment,
        epoch=kept.epoch if kept else 0,
        revision=plan.revision,
        drafter=plan.drafter,
        drafting=plan.drafting,
    )


def read_plan(folder: Path) -> LaunchPlan:
    """Read the mounted plan.

    Raises
    ------
    PlanUnreadableError
        It is not there yet, or not a plan.
    """
    path = folder / PLAN_KEY
    try:
        return LaunchPlan.model_validate_json(path.read_bytes())
    except OSError as error:
        raise PlanUnreadableError(
            f"{path} can't be read ({error.strerror}): the operator writes it into ConfigMap NAME-engine"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise PlanUnreadableError(
            f"{path} is no launch plan ({place}: {first['msg']}): the operator and this agent differ in version"
        ) from error


def read_state(folder: Path) -> Obeyed | None:
    """Read what earlier lives of this pod obeyed; a torn or foreign file counts as none."""
    try:
        return Obeyed.model_validate_json((folder / STATE_FILE).read_bytes())
    except (OSError, ValidationError):
        return None


def write_state(folder: Path, state: Obeyed) -> None:
    """Keep what the agent obeys, whole or not at all, also through a power cut.

    Raises
    ------
    StateNotWrittenError
        The pod's volume does not take it.
    """
    keep(folder / STATE_FILE, state.model_dump_json(by_alias=True).encode())


def keep(path: Path, content: bytes) -> None:
    """Write down what the next life of this pod needs.

    Raises
    ------
    StateNotWrittenError
        The pod's volume does not take it.
    """
    try:
        write_whole(path, content)
    except OSError as error:
        raise StateNotWrittenError(
            f"the agent's state could not be written ({error}): see the pod's volume"
        ) from error


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file in one step and wait until it is on the disk."""
    draft = path.with_name(f".{path.name}.new")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
