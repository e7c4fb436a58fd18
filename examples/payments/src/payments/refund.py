"""Refunds: never more than was charged (PAY-2)."""


def refund(ledger: dict[str, int], key: str, cents: int) -> int:
    """Give `cents` of the charge `key` back. Returns what remains of it."""
    if cents > ledger.get(key, 0):
        raise ValueError("more than was charged")
    ledger[key] -= cents
    return ledger[key]
