"""What runs inside SGLang: strict loading, swaps, drafting on/off, exact counters, closed routes.

SGLang loads :func:`register` through its entry point group `sglang.srt.plugins` into the processes that it
starts. One module per patch; each says which symptom it cures and how one sees that it is in force.
A patch that does not fit the SGLang at hand ends the process with a sentence: SGLang itself only logs a
failed plugin and would serve without it.

What the agent gives
--------------------
Environment of the SGLang process (names in `specdec.engine.loopback`): `SPECDEC_RUN_DIR` (a new, empty,
writable folder for every start, not longer than 80 characters: it holds Unix sockets), `SPECDEC_SECRET`,
`SPECDEC_PROBE_PREFIX`, `SPECDEC_REVISION`, `SPECDEC_DRAFTING`. `SGLANG_PLUGINS` unset, or containing `specdec`.

Arguments that the agent must render, beside model, port and the user's own::

    --enable-metrics --skip-server-warmup --max-running-requests M
    --speculative-algorithm EAGLE3 --speculative-draft-model-path OVERLAY
    --speculative-num-steps N --speculative-eagle-topk 1 --speculative-num-draft-tokens N+1
    --speculative-adaptive --speculative-adaptive-config FILE
    --speculative-draft-model-quantization unquant

FILE holds `{"1": {"candidate_steps": [0, N]}}`. SGLang's own warm-up must be off since it uses routes that
are closed here; for the same reason the agent posts `/freeze_gc` itself when it has warmed up. Values above 1
of `--tokenizer-worker-num`, `--dp-size` and `--pp-size` are refused. A start without `--speculative-algorithm`
is fine: steps 0, no states, tokens are still counted.

What the plugin answers
-----------------------
- `RUN_DIR/scheduler-RANK.sock`: connect, read one JSON line (`loopback.Report`), closed by the plugin. It
  exists as soon as the scheduler is about to serve, after weights and graphs. `Report.patches` must hold all
  of :data:`PATCHES` (:data:`DRAFTER_PATCHES` only when the engine drafts), else the agent fails the start.
- `RUN_DIR/load-report.json` (`loopback.StartReport`): written after the drafter's load, and again by
  anything of ours that refuses the start (`reason` not empty: LoadFailed, NotReadable, TensorsNotConsumed,
  ParametersNotFed, DraftingStatesMissing, PatchNotApplicable, Unsupported). The process then exits with the same sentence in its log.
- Orders: write `RUN_DIR/commands/N.json` (one `loopback.Order`, N rising), then `POST /set_internal_state`
  with the header `x-specdec-secret` and the body `{"server_args": {"specdec_command": N}}`. It answers
  `[true]` within one decode batch and waits for no request; the outcome is in `Report.outcomes`
  under N, on every rank.
  - `stage` reads and checks in a thread: "working", then "done" or "refused". Poll the report: 10 ms for the
    tests' drafters, 1 s for 1.9 GB on an H200 (requests take 1.5 times as long meanwhile). Host memory for two
    staged drafters is taken at the start; the one staged longest ago makes room for the next, even if that is
    then refused, and two at a time are refused (Busy). So stage the promoted drafter first: the way back is
    then one `commit`.
  - `commit` is done when the HTTP answer is there; the pause is 1 ms for the tests' drafters, 36 ms for
    1.9 GB on one H200, 23 ms on two. All ranks must have staged it, or all refuse (NotStaged).
    A staged drafter may be committed again. The cache keys change with every commit, so no request ever
    reads draft KV that another drafter wrote. Requests in flight go on and count as `carried`.
  - `steps` is done when the HTTP answer is there; `Report.steps` follows with the next batch. At 0 the target
    decodes as without a drafter; the way back then changes the cache keys as a commit does, and requests in
    flight count as `carried`. With `warm` draft KV is written all the while, at SGLang's price.
- Routes: `/v1/*`, `/health`, `/ready`, `/metrics` are open; all others want the header, else 403. Send the
  agent's own requests with `rid` beginning with `SPECDEC_PROBE_PREFIX`; they are counted as `probe`.
- `/metrics`: `specdec_verify_calls_total`, `specdec_correct_drafts_total{position}`,
  `specdec_kept_tokens_total`, each with labels revision, steps, source.
"""

from __future__ import annotations

PATCHES = ("control", "counters", "report", "routes")
"""Patches that every engine has in force."""

DRAFTER_PATCHES = (
    "strict_load",
    "overlay",
    "embedding_capture",
    "norm_before_residual",
    "swap",
    "drafting",
    "plain_decode",
)
"""Patches that an engine with a drafter has in force as well."""


def register() -> None:
    """Register this process's patches; called by SGLang in every process that it starts."""
    from specdec.engine.plugin import registration, settings

    found = settings.read()
    # Without an agent SGLang is left as it is: someone runs the image by hand.
    if found is not None:
        registration.register(found)
