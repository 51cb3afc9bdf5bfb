"""Parts of the engine half's benchmark: each measures one thing on engines that it is given, and returns rows."""
