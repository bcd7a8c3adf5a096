"""How many plays may be cut short."""

import pytest

from tests.differential.cuts import Cut, Reason, require_few
from tests.differential.op import Op

CUT = Cut(Op("pop", {}), Reason.LATE)


@pytest.mark.parametrize(("plays", "most"), [(1, 2), (30, 3), (40, 4), (200, 12), (2_000, 102)])
def test_more_cuts_than_a_few_per_cent_fail(plays: int, most: int) -> None:
    require_few([CUT] * most, plays)
    with pytest.raises(
        AssertionError, match=f"{most + 1} of {plays} plays were cut short, more than {most}:"
    ):
        require_few([CUT] * (most + 1), plays)
