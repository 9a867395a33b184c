import pickle

from cnp_router.text import remembered
from cnp_router.text.remembered import Remembered


def test_a_function_is_asked_once():
    asked = []

    def doubled(n):
        asked.append(n)
        return 2 * n

    found = Remembered(doubled)
    assert [found[3], found[4], found[3]] == [6, 8, 6]
    assert asked == [3, 4]


def test_it_does_not_grow_without_end(monkeypatch):
    monkeypatch.setattr(remembered, "_MOST", 3)
    found = Remembered(str)
    assert [found[n] for n in range(5)] == ["0", "1", "2", "3", "4"]
    assert dict(found) == {3: "3", 4: "4"}


def test_a_copy_finds_again_what_was_found():
    found = Remembered(len)
    assert found["maps"] == 4
    copy = pickle.loads(pickle.dumps(found))
    assert (dict(copy), copy["maps"]) == ({}, 4)
