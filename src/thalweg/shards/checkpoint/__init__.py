"""What lies in a checkpoint beside Spark's own files, and what protects it."""
