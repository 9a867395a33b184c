from __future__ import annotations

import pytest
from fixed import Fixed


@pytest.fixture
def router():
    return Fixed(0.1, 0.8, 0.3, 0.0)
