"""Where a stream enters: what is checked, stamped and judged late."""
