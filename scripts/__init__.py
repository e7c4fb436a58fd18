"""Programs that keep the repository in order; no part of the product."""
