"""Bearer tokens: kept as hashes, found by whoever carries one."""

from __future__ import annotations

import pytest

from interlock.node.tokens import NotAllowed, TokenTable, token_hash


def test_a_token_is_kept_as_a_hash_and_found_by_its_bearer() -> None:
    token = "a-token-of-some-length"
    table = TokenTable({"acme": token_hash(token), "globex": token_hash("another-token-entirely")})
    assert table.name_of(f"Bearer {token}") == "acme"
    assert table.name_of(f"bearer {token}") == "acme"
    assert token not in str(vars(table))


@pytest.mark.parametrize(
    ("header", "status"), [(None, 401), ("", 401), ("Basic x", 401), ("Bearer ", 401), ("Bearer x", 403)]
)
def test_without_a_token_of_ours_nothing_opens(header: str | None, status: int) -> None:
    with pytest.raises(NotAllowed) as caught:
        TokenTable({"acme": token_hash("a-token-of-some-length")}).name_of(header)
    assert caught.value.status == status


def test_tokens_that_can_be_guessed_or_stand_in_the_clear_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 16"):
        token_hash("short")
    with pytest.raises(ValueError, match="not kept as a SHA-256"):
        TokenTable({"acme": "a-token-of-some-length"})
