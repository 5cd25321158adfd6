"""How a round runs: messages, coordinator, local training, scoring on the public reference set, aggregation."""
