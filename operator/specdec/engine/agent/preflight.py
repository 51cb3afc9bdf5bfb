"""The preflight where no pod of the server runs: `specdec-agent preflight`, in a Job of the engine's image without a GPU.

It reads what it would start from the environment variable `SPECDEC_PLAN`, judges the drafter's headers as a start
would, and leaves one JSON message where the kubelet puts a container's last words.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from pydantic import ValidationError

from specdec.engine.agent.judging import examined, result, survey
from specdec.engine.agent.launch import LaunchRefusedError, read_profile
from specdec.engine.agent.settings import SettingsError, from_environment
from specdec.engine.agent.staging import inside
from specdec.engine.protocol import LaunchPlan
from specdec.preflight.checkpoint import CheckpointRefusedError
from specdec.preflight.finding import Finding, Severity
from specdec.preflight.reading import read_drafter
from specdec.preflight.report import Report
from specdec.preflight.source import LocalFolder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specdec.engine.agent.settings import Settings

log = logging.getLogger("specdec.agent")

PLAN = "SPECDEC_PLAN"


def main(environ: Mapping[str, str] = os.environ) -> int:
    """Judge what the environment names and write the result; 1 says that nothing could be judged at all."""
    try:
        settings = from_environment(environ)
        plan = LaunchPlan.model_validate_json(environ.get(PLAN, ""))
        report = judged(settings, plan)
    except (SettingsError, ValidationError, LaunchRefusedError) as error:
        log.error("the preflight can't run: %s", error)  # noqa: TRY400 - the sentence says it all
        return 1
    log.info(
        "%s: %s", report.verdict.value, "; ".join(one.sentence for one in report.findings) or "no finding"
    )
    written = result(report, plan.revision, plan.preflight)
    settings.termination_log.write_text(written.model_dump_json(by_alias=True))
    return 0


def judged(settings: Settings, plan: LaunchPlan) -> Report:
    """Judge the plan's drafter against its target, arguments and this image.

    Raises
    ------
    LaunchRefusedError
        This is no engine image.
    """
    profile = read_profile(settings.specdec_profile)
    drafter = plan.drafter
    path, layers = (drafter.path, drafter.layers) if drafter else ("", None)
    nothing = Report(path, plan.target_path, profile.version)
    try:
        target = inside(settings.models_dir, plan.target_path)
        arguments = (*profile.args, *plan.arguments)
        around = survey(target, profile.version, arguments, profile.env, plan.num_steps)
    except CheckpointRefusedError as refusal:
        return _with(nothing, "TargetNotFound", Severity.ERROR, str(refusal))
    except Exception as error:
        log.exception("the target can't be judged")
        return _with(
            nothing, "NotJudged", Severity.UNKNOWN, f"the preflight failed on {plan.target_path} ({error!r})"
        )
    try:
        reading = read_drafter(LocalFolder(inside(settings.models_dir, path)))
        return examined(reading, around, plan.preflight, layers).report
    except CheckpointRefusedError as refusal:
        return _with(nothing, refusal.reason, Severity.ERROR, str(refusal))
    except Exception as error:
        log.exception("the drafter can't be judged")
        return _with(nothing, "NotJudged", Severity.UNKNOWN, f"the preflight failed on {path} ({error!r})")


def _with(report: Report, code: str, severity: Severity, found: str) -> Report:
    finding = Finding(code, severity, found, "a readable model", "check the claim and the path", "")
    return Report(report.drafter, report.target, report.version, findings=(finding,))
