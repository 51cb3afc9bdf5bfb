"""Proofs of the capability table on the source of real SGLang wheels: no GPU, no torch, nothing imported of them.

`python -m specdec.preflight.probes` checks every listed version, `... VERSION` some, `... --write` renews
`arguments.json` from the wheels. Wheels are kept below $SPECDEC_CACHE (default ~/.cache/specdec). For a new
SGLang release: run the probes on it, see what differs from the newest row, add a row.
"""
