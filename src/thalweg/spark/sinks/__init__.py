"""Where the answers of a micro-batch go."""
