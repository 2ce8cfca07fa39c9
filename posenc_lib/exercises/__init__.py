"""What a learner tries: one module of checks per notebook, each with messages that name the likely mistake."""
