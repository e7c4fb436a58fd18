"""A payment is charged at most once."""

from payments.charge import charge


def test_a_repeated_key_charges_nothing() -> None:
    ledger: dict[str, int] = {}
    assert charge(ledger, "order-1", 500) == charge(ledger, "order-1", 500) == 500
    assert ledger == {"order-1": 500}
