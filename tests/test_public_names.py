"""What `import labelsift` offers."""

import labelsift
from labelsift import METHODS


def test_every_name_is_there_and_every_method_among_them():
    assert all(getattr(labelsift, name) is not None for names in labelsift.HOMES.values() for name in names)
    assert {cls.__name__ for cls in METHODS.values()} <= set(dir(labelsift))


def test_a_method_of_ones_own_needs_no_other_module():
    assert {"Method", "setting", "Run", "Batch", "Examples"} <= set(dir(labelsift))
