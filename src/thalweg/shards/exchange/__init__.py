"""The exchange between fragments: chunks of elements, and how rows find their bucket."""
