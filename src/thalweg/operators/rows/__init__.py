"""Row by row: what changes a row or its lifetime and looks at no other key."""
