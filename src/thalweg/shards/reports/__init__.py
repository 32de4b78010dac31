"""What buckets report after a micro-batch, and what follows from all reports."""
