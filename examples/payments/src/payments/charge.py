"""Charging: at most once for a key (PAY-1)."""

ATTEMPTS = 3


def charge(ledger: dict[str, int], key: str, cents: int) -> int:
    """Charge `cents` under `key`. A repeated key gives what was charged before."""
    if cents <= 0:
        raise ValueError("an amount is a positive number of cents")
    return ledger.setdefault(key, cents)
