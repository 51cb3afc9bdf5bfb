"""Parts of the poller's benchmark: a thousand engines that answer, and what asks them."""
