"""The agent: PID 1 of an engine pod. It stages, starts, supervises, probes, swaps, drains and reports.

Pure: `plan` (which revision to obey), `launch` (command line and environment), `phases` and `failures`
(what SGLang's log lines mean), `ladder` (what to try next), `verdict` (what the agent's own requests
show), `commands` (which command to take). Effects: `staging`, `child`, `loopback_client`, `probe`,
`candidacy`, `supervisor`, `server`.

What must survive the operator's absence lives here: with the operator gone an engine starts, restarts,
warms up and takes back an unconfirmed candidate as before.
"""
