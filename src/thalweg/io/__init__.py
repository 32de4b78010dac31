"""Input and output for both engines: events in memory, records as text, files."""
