"""Every reason that an engine gives of its own, each with what it means; those of reading and judging files are the preflight's.

Data for the reference page and for `kubectl specdec preflight --explain`; how the operator takes each is in
`rollout.outcomes`. The known ends of SGLang are in `agent.signatures`.
"""

from __future__ import annotations

from collections.abc import Mapping

REFUSED: Mapping[str, str] = {
    "ParametersNotFed": "Parameters of the draft model got nothing from the checkpoint: they would have kept the old drafter's weights.",
    "TensorsNotConsumed": "The checkpoint has tensors whose names SGLang drops: it would have run without them.",
    "ShapeMismatch": "A tensor has another shape than the parameter of the serving drafter that it is for.",
    "DtypeDiffers": "A tensor has another type than the serving drafter's parameters: it would have been rounded in silence.",
    "NotFinite": "A tensor holds infinities or NaN, or was not written whole.",
    "TokenMapOutOfRange": "d2t names tokens that the target does not have.",
    "OrderUnreadable": "The plugin can't read the agent's order: they are of different releases.",
    "OverlayUnknown": "The agent asks for a mend that the plugin does not know: they are of different releases.",
    "ConfigDiffers": "A key of config.json that SGLang reads at the start only is another one than the serving drafter's.",
    "TokenMapDiffers": "d2t is there in one of the two drafters only, has another length, or holds no whole numbers.",
    "NotSwappable": "The drafter's class, quantisation or types can't be swapped in place, or it needs other arguments than SGLang runs with.",
    "NoDrafter": "SGLang was started without a drafter, so there is none to write over.",
    "TensorsMoved": "SGLang has bound the serving drafter's tensors anew: graphs would go on reading the old ones.",
    "DigestChanged": "The folder's contents are others than when this revision was first staged: new weights belong into a new folder.",
    "ChangedWhileStaged": "A file changed while it was staged: checks, weights and digest may be of different ones.",
    "DigestTimedOut": "Hashing the drafter took too long: the volume is slow.",
    "VolumeHangs": "The drafter's folder could not be read in time.",
    "Busy": "An earlier drafter was still being staged when this one came.",
    "NotStaged": "Not every tensor-parallel rank held the drafter when it was to be copied.",
    "EngineUnreachable": "SGLang did not do in time what it was ordered.",
    "EngineEnded": "SGLang ended before the candidate served, or for a reason outside of the drafter.",
    "InternalError": "The agent or the plugin failed: its log has the traceback. Please report it.",
}  # fmt: skip
"""Why a drafter does not get to serve."""

RETURNED: Mapping[str, str] = {
    "DeadDrafter": "None of the probe's guesses was right, or no more than by chance: rejected.",
    "DegenerateAnswers": "The probe's answers were degenerate, and those of the start were not: rejected.",
    "TooFewCalls": "The probe got too few verify calls to say anything: tried again.",
    "NotConfirmed": "The operator said nothing for rollout.confirmWithinSeconds: tried again, unless live traffic looked bad.",
    "EngineCrashed": "SGLang ended while the candidate served, and nothing outside of the drafter explains it: rejected.",
    "SwapBackRefused": "The way back was refused: drafting goes off on that engine.",
}
"""Why a candidate that served was taken back by its engine; it may also be one of the reasons of a refusal."""

START: Mapping[str, str] = {
    "LoadFailed": "SGLang's loader failed on a tensor of the drafter.",
    "DraftingStatesMissing": "SGLang holds no runtime state for drafting off or on: it turns that off for some arguments.",
    "NotBesideDrafter": "An argument of the image's profile can't be used with a drafter.",
    "Unsupported": "SGLang runs in a way that the plugin does not cover: the message names it.",
    "PatchNotApplicable": "A patch of the plugin does not fit this SGLang: use a supported image.",
    "PatchNotInForce": "SGLang came up without a patch of the plugin: use a supported image.",
    "PluginSilent": "SGLang came up, but the plugin in it does not answer.",
    "NoSuchSteps": "SGLang holds no runtime state for the number of steps that was ordered.",
    "DraftingNotSet": "Drafting could not be switched as the launch plan says.",
    "WarmUpFailed": "The warm-up got no answer within engine.warmupSeconds.",
    "StartStalled": "No progress for engine.stallSeconds.",
    "TargetNotReadable": "The target's folder could not be read: check the volume.",
    "TargetVolumeHangs": "The target's folder could not be read in time.",
    "NotStarted": "SGLang's process could not be started: is it an engine image?",
    "PlanRefused": "The launch plan can't be made into arguments: the message names what to change.",
    "PlanUnreadable": "The mounted launch plan can't be read.",
    "StateNotWritten": "The agent can't write its state: the pod's volume is full or broken.",
    "RunFolderNotWritten": "The folder of one start could not be written: the pod's volume is full or broken.",
    "Killed": "SGLang was killed by signal 9: most often the node's or the pod's memory.",
    "EngineExited": "SGLang ended with nothing that is known in its last lines: the message has the most telling one.",
    "AgentStopped": "The agent's own work ended. Please report it.",
}
"""Why a start or a life of SGLang ended, beside its own known ends."""

ANSWER: Mapping[str, str] = {
    "NotServing": "The command is about a drafter that does not serve, or comes before the engine does.",
    "RestartNeeded": "The engine was started without a drafter and takes none in.",
    "StaleEpoch": "Another operator leads by now.",
    "StaleAssignment": "A later command is obeyed already.",
    "NoPlan": "The agent has no launch plan yet.",
    "SignatureRefused": "No key of the launch plan signed the command, or it is for another pod, body or time.",
    "CommandMalformed": "The command is none that this agent knows.",
    "BodyTooLarge": "The command's body is too long or too slow.",
    "AgentBusy": "The agent did not take the command in time.",
}
"""Why an agent takes no command: `Reconciling` then has the reason ApplyFailed, and the operator goes on trying."""

REASONS: Mapping[str, str] = {**ANSWER, **START, **RETURNED, **REFUSED}
