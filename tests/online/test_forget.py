"""Forgetting what was observed: out of the records, of what was learned, and of the bytes."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from contextlib import closing

import pytest
from killing import Tally
from worlds import run

from cnp_router.exceptions import InputError, ModelStoreError
from cnp_router.forgetting import Forgetting, Forgotten
from cnp_router.history import Mashup
from cnp_router.online import OnlineStore, Reputation, database
from cnp_router.prediction import NextToolRouter
from cnp_router.trajectories import Step, Trajectory

SECRET = "zanzibar-7f3a"


def records():
    yield run("0", "Rain?", "weather", "sms")
    yield Trajectory("t1", f"Where is {SECRET}?", (Step("maps", {"at": SECRET}),), user="ann")
    yield Mashup("m1", f"A map of {SECRET}.", ("maps", "fax"), user="ann")
    yield Mashup("m2", "A map of bars.", ("maps", "sms"), user="bob")
    yield Mashup("m3", "Faxes.", ("fax",))
    yield Trajectory("m2", "A map.", (Step("maps"), Step("fax", {}, SECRET), Step("sms")))
    yield run("2", "Fax?", "fax")
    yield from (run(str(n), "Rain?", "weather", "sms") for n in range(3, 9))


@pytest.fixture
def file(tmp_path):
    return tmp_path / "online.sqlite"


@pytest.fixture
def filled(file):
    with OnlineStore(file, [Tally(), NextToolRouter()], checkpoint_every=3) as store:
        for record in records():
            store.observe(record)
    return file


def forget(file, **what) -> Forgotten:
    with OnlineStore(file, []) as store:
        return store.forget(Forgetting(**what))


def found(file):
    tally = Tally()
    OnlineStore(file, [tally], read_only=True)
    return tally.ids


def rows(file):
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute("SELECT sequence, kind, id FROM records ORDER BY 1").fetchall()


def bytes_of(file):
    return b"".join(path.read_bytes() for path in file.parent.iterdir())


def test_a_user(filled):
    assert SECRET.encode() in bytes_of(filled)
    forgotten = forget(filled, users=("ann",))
    assert (forgotten.mashups, forgotten.trajectories) == (["m1"], ["t1"])
    assert [number for number, *_ in rows(filled)] == list(range(1, 12))
    assert "t1" not in found(filled) and "m1" not in found(filled)


def test_a_mashup_and_the_run_of_the_same_id(filled):
    forgotten = forget(filled, mashups=("m2",))
    assert (forgotten.mashups, forgotten.trajectories) == (["m2"], ["m2"])
    assert "m2" not in found(filled)


def test_an_execution_that_was_continued(file):
    ids = [
        "execution-a1", "execution-a1-2", "execution-a1-31", "execution-a1-x", "execution-a1-2-",
        "execution-a1-2b", "execution-a10", "execution-b2-2", "m1", "m1-2", "execution-", "x-a1-2",
    ]  # fmt: skip
    gone = ["execution-a1", "execution-a1-2", "execution-a1-31", "m1"]
    with OnlineStore(file, []) as store:
        store.observe(Mashup("execution-a1", f"A map of {SECRET}.", ("maps",)))
        store.observe(Mashup("execution-a1-2", "Of another one.", ("maps",)))
        for name in ids:
            words = SECRET if name in gone else "Rome"
            store.observe(Trajectory(name, f"A map of {words}.", (Step("maps"),)))
    forgotten = forget(file, mashups=("execution-a1", "m1"))
    assert forgotten.trajectories == gone
    assert forgotten.mashups == ["execution-a1"]
    assert [name for _, kind, name in rows(file) if kind == "trajectory"] == [
        name for name in ids if name not in gone
    ]
    assert SECRET.encode() not in bytes_of(file)
    assert forget(file, mashups=("execution-a1-2",)).mashups == ["execution-a1-2"]


def test_an_api(filled):
    forgotten = forget(filled, apis=("fax",))
    assert (forgotten.mashups, forgotten.trajectories) == (["m3"], ["t2"])
    assert (forgotten.n_changed, forgotten.n_steps) == (2, 1)
    router = NextToolRouter()
    with OnlineStore(filled, [router]) as store:
        assert not store.observe(Mashup("m1", f"A map of {SECRET}.", ("maps",), user="ann")).changed
        left = Trajectory("m2", "A map.", (Step("maps"), Step("sms")))
        assert not store.observe(left).changed
        assert store.sequence == 11
    assert b"fax" not in bytes_of(filled)


def test_the_bytes_are_gone(filled):
    with OnlineStore(filled, []) as store:
        store.forget(Forgetting(users=("ann",), apis=("fax",)))
        # Of the file and of its log, while it is open and afterwards.
        assert SECRET.encode() not in bytes_of(filled)
    assert SECRET.encode() not in bytes_of(filled)
    assert not filled.with_name("online.sqlite-wal").exists()


def test_of_a_log_that_a_killed_process_left(filled, tmp_path):
    store = OnlineStore(filled, [Tally()])
    store.observe(Mashup("late", f"More of {SECRET}.", ("maps",), user="ann"))
    other = tmp_path / "killed"
    other.mkdir()
    for path in filled.parent.glob("online.sqlite*"):
        (other / path.name).write_bytes(path.read_bytes())
    store.close()
    forget(other / filled.name, users=("ann",), apis=("fax",))
    assert SECRET.encode() not in bytes_of(other / filled.name)


@pytest.mark.parametrize("at_once", [1, 2, 5, 1_000])
def test_what_is_left_is_as_if_it_had_never_been(filled, tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(database, "_AT_ONCE", at_once)
    what = Forgetting(users=("ann",), apis=("fax",))
    forget(filled, users=("ann",), apis=("fax",))
    other = tmp_path / "other" / "online.sqlite"
    left = [what.left_of(record) for record in records()]
    with OnlineStore(other, [Tally()]) as store:
        for record in left:
            if record is not None:
                store.observe(record)
    assert rows(filled) == rows(other)
    assert found(filled) == found(other)
    learned = [NextToolRouter(), NextToolRouter()]
    for place, router in zip((filled, other), learned, strict=True):
        with OnlineStore(place, [router, Reputation()]) as store:
            store.checkpoint()
    one, two = (router.predict_next([Step("weather")]) for router in learned)
    assert one.to_dict() == two.to_dict()


def test_nothing_of_it(filled):
    before = rows(filled)
    assert not forget(filled, mashups=("m9",), users=("eve",), apis=("telex",))
    assert rows(filled) == before
    with closing(sqlite3.connect(filled)) as connection:
        (n,) = connection.execute("SELECT count(*) FROM checkpoints").fetchone()
    assert n == 2  # nothing has to be learned again


def test_everything(filled):
    ids = tuple(record.id for record in records())
    forget(filled, mashups=ids)
    assert rows(filled) == [] and found(filled) == []
    with OnlineStore(filled, [Tally()]) as store:
        assert store.observe(run(0, "Rain?", "weather")).sequence == 1


def test_observing_goes_on_in_the_same_store(filled):
    with OnlineStore(filled, []) as store:
        store.forget(Forgetting(users=("ann",)))
        assert store.sequence == 11
        assert store.observe(Mashup("m1", "A map.", ("maps",))).sequence == 12
    assert len(rows(filled)) == 12


def test_observers_cannot_unlearn(filled):
    with (
        OnlineStore(filled, [Tally()]) as store,
        pytest.raises(InputError, match="without any to forget"),
    ):
        store.forget(Forgetting(users=("ann",)))
    store = OnlineStore(filled, [], read_only=True)
    with pytest.raises(ModelStoreError, match="opened to be read"):
        store.forget(Forgetting(users=("ann",)))


@pytest.mark.parametrize("where", ["INSERT INTO records", "DELETE FROM checkpoints", "VACUUM"])
def test_broken_off_it_is_done_or_not_and_again_finishes(filled, where, monkeypatch):
    before = rows(filled)

    class Breaking:
        """A connection that dies at a statement."""

        def __init__(self, connection):
            self._connection = connection

        def __getattr__(self, name):
            return getattr(self._connection, name)

        def execute(self, statement, *values):
            if statement.startswith(where):
                raise sqlite3.OperationalError("disk I/O error")
            return self._connection.execute(statement, *values)

        def executemany(self, statement, *values):
            if statement.startswith(where):
                raise sqlite3.OperationalError("disk I/O error")
            return self._connection.executemany(statement, *values)

    store = OnlineStore(filled, [])
    store._database._connection = Breaking(store._database._connection)
    with pytest.raises(Exception, match="disk I/O error"):
        store.forget(Forgetting(users=("ann",), apis=("fax",)))
    with pytest.raises(ModelStoreError, match="broken off"):
        store.observe(run(99, "Rain?", "weather"))
    store.close()
    assert (rows(filled) == before) == (where != "VACUUM")
    forget(filled, users=("ann",), apis=("fax",))
    assert len(rows(filled)) == 9
    assert SECRET.encode() not in bytes_of(filled)


def test_killed_at_any_statement_it_is_done_or_not_and_again_finishes(filled, tmp_path):
    before = rows(filled)
    copies = []

    class Copying:
        """A connection whose files are copied before each statement, as a kill leaves them."""

        def __init__(self, connection):
            self._connection = connection

        def __getattr__(self, name):
            return getattr(self._connection, name)

        def _copy(self):
            copies.append(tmp_path / "killed" / str(len(copies)))
            copies[-1].mkdir(parents=True)
            for path in filled.parent.glob("online.sqlite*"):
                shutil.copy(path, copies[-1])

        def execute(self, *statement):
            self._copy()
            return self._connection.execute(*statement)

        def executemany(self, *statement):
            self._copy()
            return self._connection.executemany(*statement)

    with OnlineStore(filled, []) as store:
        store._database._connection = Copying(store._database._connection)
        store.forget(Forgetting(users=("ann",), apis=("fax",)))
    after = rows(filled)
    found = []
    for folder in copies:
        file = folder / "online.sqlite"
        found.append(rows(file))
        forget(file, users=("ann",), apis=("fax",))
        assert rows(file) == after
        assert SECRET.encode() not in bytes_of(file)
    assert len(copies) > 8
    assert [before, after] == [state for state, _ in itertools.groupby(found)]


def test_somebody_who_reads_is_told(filled):
    with closing(sqlite3.connect(filled)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM records").fetchall()
        store = OnlineStore(filled, [])
        with pytest.raises(ModelStoreError, match="as long as somebody reads it"):
            store.forget(Forgetting(users=("ann",), apis=("fax",)))
    store.close()
    forget(filled, users=("ann",), apis=("fax",))
    assert SECRET.encode() not in bytes_of(filled)


class TestWhat:
    def test_nothing(self):
        with pytest.raises(InputError, match="nothing is to be forgotten"):
            Forgetting()

    @pytest.mark.parametrize("what", [{"mashups": (" ",)}, {"users": ("",)}, {"apis": "sms"}])
    def test_what_is_none(self, what):
        with pytest.raises(InputError):
            Forgetting(**what)

    def test_a_record_without_a_user_is_nobody_s(self):
        mashup = Mashup("m", "Rain?", ("weather",))
        assert Forgetting(users=("None",)).left_of(mashup) is mashup

    def test_an_empty_run_is_not_one_of_an_api(self):
        empty = Trajectory("t", "Rain?", ())
        assert Forgetting(apis=("sms",)).left_of(empty) is empty

    @pytest.mark.parametrize("user", ["", " ", 7])
    def test_a_user_has_a_name(self, user):
        for make in (
            lambda: Mashup("m", "Rain?", ("weather",), user=user),
            lambda: Trajectory("t", "Rain?", (), user=user),
        ):
            with pytest.raises(InputError, match="user must be"):
                make()
