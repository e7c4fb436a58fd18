"""Programs that measure; no part of the product."""
