"""Payments in whole cents."""
