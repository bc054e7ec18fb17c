"""What publishes: reads committed state, makes reports, and passes results, verdicts and their changes on."""
