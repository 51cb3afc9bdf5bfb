"""Parts of the judge's benchmark: traffic, the peers' rules, and the runs."""
