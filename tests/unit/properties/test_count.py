# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""That the property tests are as many cases as is said of them."""

from __future__ import annotations

from tests.unit.properties import test_manifests, test_names, test_quoting, test_trees
from tests.unit.properties.cases import ALL_CASES, COUNTED


def test_there_are_ten_thousand_cases() -> None:
    found = {module.__name__.rpartition(".")[2] for module in (test_manifests, test_names, test_quoting, test_trees)}
    assert {name.rpartition(".")[0].rpartition(".")[2] for name in COUNTED} == found
    assert sum(COUNTED.values()) >= ALL_CASES
