from __future__ import annotations

import datetime
import json
import re

import pytest
from rich.cells import cell_len

from cnp_router.catalog import Api, Catalog
from cnp_router.cli.restriction import Restriction
from cnp_router.exceptions import InputError
from cnp_router.routing import Reason, Recipient, Routing
from cnp_router.training import LearnedRouter

REQUEST = "Send me a text message when it rains."


@pytest.fixture
def recommend(run, sample_model):
    def recommend(*arguments, **options):
        return run("recommend", "--model", sample_model, *arguments, **options)

    return recommend


class TestTable:
    def test_what_it_says(self, recommend, sample_router):
        result = recommend(REQUEST)
        routing = sample_router.route(REQUEST)
        assert (result.exit_code, result.stderr) == (0, "")
        table, facts = result.stdout.split("\n\n")
        assert table.startswith("   API ")
        assert table.endswith(
            "\nMarked *: recommended. Probability: from 0 to 1, that the request needs the API."
        )
        for recipient in routing.recipients[:10]:
            mark = r"\*" if recipient.contractor in routing.recommendation else " "
            row = rf"^{mark}  {recipient.contractor} +{recipient.probability:.2f}"
            assert re.search(row, table, re.MULTILINE)
        asked = len(routing.recipients)
        assert (
            f"Recipients      {asked} of 149 contractors, enough to reach 90% of the needed"
            in facts
        )
        assert f"Verdict         Sure: the confidence of {routing.confidence:.2f} reaches" in facts
        assert f"Messages saved  {149 - asked} of the 149 of a broadcast" in facts

    def test_every_reason_is_shown(self, recommend, monkeypatch, sample_router):
        reasons = (Reason("name", "it says Twilio"), Reason("history", "used before"))
        routing = Routing(
            REQUEST, (Recipient("twilio", 0.9, reasons),), ("twilio",), 0.8, "learned", 149, 0.6,
            "none",
        )  # fmt: skip
        monkeypatch.setattr(type(sample_router), "route", lambda *_, **__: routing)
        assert recommend(REQUEST).stdout == (
            "   API     probability  why\n"
            "*  twilio         0.90  it says Twilio; used before\n"
            "Marked *: recommended. Probability: from 0 to 1, that the request needs the API.\n"
            "\n"
            "Recommended     twilio\n"
            "Recipients      1 of 149 contractors, enough to reach 90% of the needed APIs on\n"
            "                average\n"
            "Verdict         Sure: the confidence of 0.80 reaches the threshold of 0.60.\n"
            "Messages saved  148 of the 149 of a broadcast (99%)\n"
        )

    def test_each_recommended_api_is_a_row(self, recommend, monkeypatch, sample_router):
        names = sample_router.apis[:14]
        routing = Routing(
            REQUEST, tuple(Recipient(name, 0.9) for name in names), names[:12], 0.8, "learned", 149,
            0.6, "none",
        )  # fmt: skip
        monkeypatch.setattr(type(sample_router), "route", lambda *_, **__: routing)
        lines = recommend(REQUEST).stdout.splitlines()
        assert [line.split()[1] for line in lines if line.startswith("*")] == list(names[:12])
        assert "... and 2 more recipients of probability 0.90 or less (--all shows them)" in lines

    @pytest.mark.parametrize(("is_promise", "said"), [(True, "enough"), (False, "aiming")])
    def test_a_recall_is_only_promised_where_the_router_does(
        self, recommend, monkeypatch, sample_router, is_promise, said
    ):
        monkeypatch.setattr(type(sample_router), "promises_recall", is_promise)
        text = " ".join(recommend(REQUEST).stdout.split())
        assert f"contractors, {said} to reach 90% of the needed APIs on average" in text

    def test_hardly_probable_recipients_are_called_so(self, recommend, monkeypatch, sample_router):
        everyone = tuple(Recipient(name, 0.001) for name in sample_router.apis[:11])
        routing = Routing(
            REQUEST, everyone, everyone[0].contractor.split(), 0.8, "learned", 149, 0.6, "none",
            n_mashups=3,
        )  # fmt: skip
        monkeypatch.setattr(type(sample_router), "route", lambda *_, **__: routing)
        text = recommend(REQUEST).stdout
        assert "\n... and 1 more recipient of probability 0.00 (--all shows them)\n" in text
        assert "11 of 149 contractors, " in text

    def test_ten_rows_and_how_many_more(self, recommend, sample_router):
        few = recommend("--top-k", 12, REQUEST).stdout
        most = sample_router.score(REQUEST).top(11)[-1][1]
        more = f"2 more recipients of probability {most:.2f} or less (--all shows them)"
        assert f"\n... and {more}\n" in few
        one = recommend("--top-k", 11, REQUEST).stdout
        assert "\n... and 1 more recipient of probability" in one
        everything = recommend("--top-k", 12, "--all", REQUEST).stdout
        assert "more (--all" not in everything
        assert everything.startswith("   API")
        exactly = recommend("--top-k", 10, REQUEST).stdout
        assert "more (--all" not in exactly
        assert "10 of 149 contractors, as many as asked for" in exactly

    @pytest.mark.parametrize("columns", [34, 40, 60])
    def test_a_narrow_terminal(self, recommend, monkeypatch, columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = recommend(REQUEST).stdout.splitlines()
        assert max(map(cell_len, lines)) <= columns

    def test_no_colours(self, recommend):
        assert "\x1b" not in recommend(REQUEST, color=True).stdout


class TestFallback:
    def test_below_the_threshold_without_one(self, recommend):
        result = recommend("--top-k", 1, "--threshold", 1, REQUEST)
        facts = " ".join(result.stdout.split())
        assert "is below the threshold of 1.00, so an API that is needed may be missing." in facts
        assert "What helps --fallback broadcast asks everyone; --fallback llm asks" in facts
        assert "Recipients 1 of 149" in facts

    def test_a_broadcast(self, recommend):
        arguments = ("--top-k", 1, "--threshold", 1, "--fallback", "broadcast")
        result = recommend(*arguments, REQUEST)
        facts = " ".join(result.stdout.split())
        assert "is below the threshold of 1.00, so everyone is asked." in facts
        assert "Recipients 149 of 149 contractors, as the fallback says" in facts
        assert "Messages saved 0 of the 149 of a broadcast (0%)" in facts
        assert "... and 139 more recipients" in result.stdout

    def test_widening_by_the_categories_that_the_model_names(self, recommend):
        ask = ("--threshold", 1, "--json", REQUEST)
        learned = json.loads(recommend(*ask).stdout)
        widened = json.loads(recommend("--fallback", "llm", "--llm", "offline", *ask).stdout)
        assert (learned["source"], widened["source"]) == ("learned", "llm")
        assert {r["contractor"] for r in learned["recipients"]} <= {
            r["contractor"] for r in widened["recipients"]
        }
        text = recommend("--threshold", 1, "--fallback", "llm", REQUEST).stdout
        assert "so a language model was asked who else may fit" in " ".join(text.split())

    def test_above_the_threshold_it_is_not_used(self, recommend):
        facts = recommend("--threshold", 0, "--fallback", "broadcast", REQUEST).stdout
        assert "reaches the threshold of 0.00" in facts


class TestJson:
    def test_one_document_and_nothing_else(self, recommend, sample_router):
        result = recommend("--json", REQUEST)
        assert (result.exit_code, result.stderr) == (0, "")
        expected = sample_router.route(REQUEST).to_dict()
        assert json.loads(result.stdout) == json.loads(json.dumps(expected))

    def test_all_recipients_are_in_it(self, recommend):
        document = json.loads(recommend("--json", "--top-k", 30, REQUEST).stdout)
        assert len(document["recipients"]) == document["n_recipients"] == 30


class TestKnown:
    def test_known_apis_are_not_asked_again(self, recommend):
        result = recommend("--known", "twilio", "--known", "google-maps", "--json", REQUEST)
        document = json.loads(result.stdout)
        assert document["known"] == ["twilio", "google-maps"]
        asked = {recipient["contractor"] for recipient in document["recipients"]}
        assert not asked & {"twilio", "google-maps"}

    def test_they_are_named(self, recommend):
        assert "\nIn use already  twilio\n" in recommend("--known", "twilio", REQUEST).stdout

    def test_an_unknown_one(self, recommend):
        result = recommend("--known", "twillio", REQUEST)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == "Error: unknown API 'twillio' (did you mean 'twilio'?)\n"


class TestRestriction:
    @pytest.fixture
    def asked(self, recommend):
        def asked(*options):
            result = recommend("--json", "--top-k", 149, *options, REQUEST)
            assert (result.exit_code, result.stderr) == (0, "")
            document = json.loads(result.stdout)
            names = {recipient["contractor"] for recipient in document["recipients"]}
            assert set(document["recommendation"]) <= names
            assert document["n_allowed"] == len(names)
            return names

        return asked

    def test_among(self, asked):
        wanted = {"twilio", "openweather", "google-maps"}
        assert asked("--among", "twilio, openweather", "--among", "google-maps") == wanted
        assert asked("--among", "twilio,openweather", "--exclude", "openweather") == {"twilio"}

    def test_exclude(self, asked, sample):
        out = {"twilio", "slack"}
        assert asked("--exclude", "twilio,slack") == set(sample.catalog.ids) - out

    def test_an_id_with_a_comma(self):
        catalog = Catalog([Api("a,b", "One"), Api("a", "A"), Api("b", "B")])
        assert Restriction(("a,b",), (), ()).arguments(catalog)["among"] == ["a,b"]

    def test_where(self, asked, sample):
        messaging = {api.id for api in sample.catalog.in_categories(["Messaging"])}
        mapping = {api.id for api in sample.catalog.in_categories(["Mapping"])}
        google = {api.id for api in sample.catalog if api.name.startswith("Google ")}
        assert asked("--where", "category=Messaging") == messaging
        assert asked("--where", "category = messaging", "--where", "category=Mapping") == (
            messaging | mapping
        )
        assert asked("--where", "name=google *", "--where", "category=Mapping") == google & mapping
        assert asked("--where", "name=twilio") == {"twilio"}
        assert asked("--where", "category=Messaging", "--among", "twilio,google-maps") == {"twilio"}
        assert asked("--where", "category=Messaging", "--exclude", "twilio") == (
            messaging - {"twilio"}
        )

    def test_what_it_says(self, recommend):
        text = " ".join(recommend("--among", "twilio,openweather,slack", REQUEST).stdout.split())
        assert "of 3 allowed contractors (of 149), enough to reach 90% of the needed APIs" in text
        assert "of the 3 of a broadcast" in text

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--among", "twilio,slak"), "unknown API 'slak' (did you mean 'slack'?)"),
            (("--exclude", "twillio"), "unknown API 'twillio' (did you mean 'twilio'?)"),
            (("--why-not", "twillio"), "unknown API 'twillio' (did you mean 'twilio'?)"),
            (("--where", "category=Mesaging"), "unknown category 'Mesaging' (did you mean 'Mess"),
            (("--where", "category=qqq"), "unknown category 'qqq' (use one of the catalog)"),
            (("--where", "name=qqq*"), "no API has a name like 'qqq*'"),
            (("--among", "slack", "--where", "name=twilio"), "no API is left by --among and"),
            (("--among", "slack", "--exclude", "slack"), "among and exclude leave none of 149"),
            (("--among", "slack", "--known", "slack"), "known and among leave none of 149 APIs"),
        ],
    )
    def test_what_does_not_exist(self, recommend, arguments, message):
        result = recommend(REQUEST, *arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"Error: {message}")

    def test_a_catalog_without_categories_says_so(self):
        within = Restriction((), (), (("category", "Maps"),))
        with pytest.raises(InputError, match=r"unknown category 'Maps' .the catalog has none; "):
            within.arguments(Catalog([Api("a", "A")]))


class TestNothingFits:
    @pytest.fixture
    def doubtful(self, monkeypatch, sample_router):
        monkeypatch.setattr(type(sample_router), "_answerable", lambda *_: 0.12)

    @pytest.mark.usefixtures("doubtful")
    def test_a_sentence_and_no_table(self, recommend):
        result = recommend(REQUEST)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout == (
            "Nothing in the catalog fits: the probability that anything does is 0.12.\n"
            "Say it in other words, or see what comes nearest with --all.\n"
        )

    @pytest.mark.usefixtures("doubtful")
    def test_within_a_restriction(self, recommend):
        said = recommend("--where", "category=Mapping", "--known", "google-maps", REQUEST).stdout
        assert said == (
            "Nothing else that is allowed fits: the probability that anything does is 0.12.\n"
            "Say it in other words, allow more, or see what comes nearest with --all.\n"
        )

    @pytest.mark.usefixtures("doubtful")
    def test_the_nearest_on_request(self, recommend):
        said = recommend("--all", "--top-k", 3, REQUEST).stdout
        assert said.startswith("API ") and "\ntwilio " in said
        assert "*" not in said and "ecommended" not in said and "to reach" not in said
        assert "\nNearest     twilio" in said and "\nRecipients  none: nothing fits\n" in said
        assert "\nVerdict     Nothing in the catalog fits: " in said

    @pytest.mark.usefixtures("doubtful")
    def test_a_fallback_asks_all_the_same(self, recommend):
        said = recommend("--all", "--fallback", "broadcast", "--threshold", 1, REQUEST).stdout
        assert "\nRecipients      149 of 149 contractors, as the fallback says\n" in said
        assert "*" not in said and "\nNearest         twilio" in said

    @pytest.mark.usefixtures("doubtful")
    def test_the_document_has_everything(self, recommend):
        document = json.loads(recommend("--json", REQUEST).stdout)
        assert document["answerable"] == 0.12
        assert document["verdict"].startswith("Nothing in the catalog fits: ")
        assert document["recipients"]


class TestDate:
    def test_it_reaches_the_router(self, recommend, monkeypatch):
        asked, score = [], LearnedRouter.score

        def recorded(self, request, known=(), *, date=None):
            asked.append(date)
            return score(self, request, known, date=date)

        monkeypatch.setattr(LearnedRouter, "score", recorded)
        assert recommend("--date", "2012-02-29", "--why-not", "slack", REQUEST).exit_code == 0
        assert asked == [datetime.date(2012, 2, 29)] * 3
        asked.clear()
        assert recommend(REQUEST).exit_code == 0
        assert asked == [None]

    @pytest.mark.parametrize("text", ["today", "2012-2-29", "20120229", "2013-02-29", ""])
    def test_anything_else_is_refused(self, recommend, text):
        result = recommend("--date", text, REQUEST)
        assert result.exit_code == 2
        assert f"Invalid value for '--date': a date must be YYYY-MM-DD, got {text!r}." in (
            result.stderr.replace("\n", " ")
        )


class TestWhyNot:
    @pytest.fixture
    def why(self, recommend):
        def why(*options):
            document = json.loads(recommend("--json", *options, REQUEST).stdout)
            return document["why_not"]

        return why

    def test_outside_the_recipients(self, why, recommend, sample_router):
        scores = sample_router.score(REQUEST)
        (third, p) = scores.top(3)[-1]
        found = why("--why-not", third, "--top-k", 2)
        assert found["because"] == "it is not among the 2 recipients (as many as asked for)"
        assert (found["api"], found["rank"], found["n_apis"]) == (third, 3, 149)
        assert found["probability"] == pytest.approx(p, abs=1e-6)
        assert found["least_recipient"] == pytest.approx(scores.top(2)[-1][1], abs=1e-6)
        assert found["least_recommended"] >= found["least_recipient"] >= found["probability"]
        assert found["reasons"]

    def test_asked_but_not_recommended(self, why, sample_router):
        routing = sample_router.route(REQUEST)
        other = routing.contractors[len(routing.recommendation)]
        assert why("--why-not", other)["because"].startswith("it is asked, but the recommended")

    def test_kept_out(self, why):
        ask = ("--why-not", "twilio")
        assert why(*ask, "--exclude", "twilio")["because"] == "--exclude keeps it out"
        assert why(*ask, "--among", "slack")["because"] == "--among keeps it out"
        where = ("--where", "category=Mapping")
        assert why(*ask, *where)["because"] == "--where category keeps it out"
        assert why(*ask, *where)["reasons"]
        assert why(*ask, "--known", "twilio")["because"] == "it is in use already (--known)"
        assert why(*ask, "--known", "twilio")["probability"] == 0

    def test_recommended(self, why):
        assert why("--why-not", "twilio")["because"] == "it is recommended"

    def test_what_it_says(self, recommend):
        said = recommend("--why-not", "slack", "--top-k", 2, REQUEST).stdout.split("\n\n")[-1]
        because = "it is not among the 2 recipients (as many as asked for)"
        assert said.startswith(f"Why not          slack: {because}\nIts probability  0.")
        assert "\nIn its favour    " in said

    def test_without_it_the_document_is_the_routing_alone(self, recommend):
        assert "why_not" not in json.loads(recommend("--json", REQUEST).stdout)


class TestCatalog:
    @pytest.mark.usefixtures("files")
    def test_a_router_of_specifications_is_made(self, run, fits, sample):
        result = run("recommend", "--catalog", "apis.jsonl", REQUEST)
        assert (result.exit_code, result.stderr) == (0, "")
        assert fits == [(sample.catalog, None, {})]
        assert "\n*  twilio " in result.stdout

    @pytest.mark.usefixtures("files")
    def test_not_with_a_model(self, recommend, fits):
        result = recommend("--catalog", "apis.jsonl", REQUEST)
        assert (result.exit_code, fits) == (2, [])
        assert "--model and --catalog exclude each other." in result.stderr

    def test_no_such_file(self, run):
        result = run("recommend", "--catalog", "no.jsonl", REQUEST)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == "Error: no.jsonl: no such file (check the path)\n"


class TestRequest:
    @pytest.mark.parametrize("text", ["", "  \n"])
    def test_an_empty_one(self, recommend, text):
        for result in (recommend(text), recommend("-", input=text)):
            assert (result.exit_code, result.stdout) == (2, "")
            assert result.stderr.endswith("\nError: The request is empty. Say what is needed.\n")

    def test_from_standard_input(self, recommend):
        assert recommend("-", input=f"{REQUEST}\n").stdout == recommend(REQUEST).stdout

    def test_standard_input_that_is_not_utf8(self, recommend):
        result = recommend("-", input="Köln".encode("latin-1"))
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == "Error: standard input: not UTF-8 (send it as UTF-8)\n"

    @pytest.mark.parametrize("text", ["雨", "?", "x" * 5000, "qqq zzz", "-- rain"])
    def test_any_text_gets_an_answer(self, recommend, text):
        assert recommend("--", text).exit_code == 0


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--target-recall", "0.8", "--top-k", "3"), "--target-recall and --top-k exclude"),
            (("--target-recall", "1"), "Invalid value for '--target-recall'"),
            (("--target-recall", "nan"), "Invalid value for '--target-recall'"),
            (("--top-k", "0"), "Invalid value for '--top-k'"),
            (("--threshold", "1.5"), "Invalid value for '--threshold'"),
            (("--threshold", "nan"), "Invalid value for '--threshold'"),
            (("--fallback", "someone"), "Invalid value for '--fallback'"),
            (("more", "words"), "Got unexpected extra argument"),
            (("--protocol", "auto"), "No such option '--protocol'"),
            (("--among", "twilio,"), "--among has an empty API id."),
            (("--exclude", ""), "--exclude has an empty API id."),
            (("--where", "category"), "'category' is not of the form KIND=VALUE."),
            (("--where", "name="), "'name=' is not of the form KIND=VALUE."),
            (("--where", "server=x"), "'server' is not one of 'category', 'name'."),
            (("--llm", "openai"), "need --fallback llm"),
            (("--base-url", "http://127.0.0.1:9/v1"), "need --llm openai"),
            (("--fallback", "llm", "--llm-model", "x"), "need --llm openai"),
        ],
    )
    def test_it_says_what_is_wrong(self, recommend, arguments, message):
        result = recommend(REQUEST, *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr

    def test_no_such_model(self, run):
        result = run("recommend", "--model", "nowhere", REQUEST)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith("Error: nowhere")
        assert result.stderr.count("\n") == 1
