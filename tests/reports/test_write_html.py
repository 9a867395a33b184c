from __future__ import annotations

import builtins
import os
import re
from dataclasses import replace
from datetime import date

import pytest

from cnp_router.catalog import Api, Catalog
from cnp_router.evaluation import evaluate, learning_curve
from cnp_router.evaluation.curves import ConfidencePoint, RecallPoint
from cnp_router.evaluation.metrics import ReliabilityBin
from cnp_router.evaluation.table import share
from cnp_router.exceptions import DataFileError, InputError, MissingExtraError
from cnp_router.history import History, Mashup
from cnp_router.reports import PAGES, check_html, rendered, write_html
from cnp_router.reports.comparison_page import comparison_page
from cnp_router.reports.evaluation_page import evaluation_page
from cnp_router.routing import PopularityRouter
from cnp_router.training import fit_router
from tests.reports.report_pages import HOSTILE, comparison


@pytest.fixture(scope="module")
def evaluation(sample):
    return evaluate(PopularityRouter(sample.catalog, sample.history[:200]), sample.history[640:])


def text_of(page) -> str:
    parts = [*page.lead, *(f"{label} {value}" for label, value in page.facts)]
    for section in page.sections:
        parts += [section.title, *section.text]
        for figure in section.figures:
            parts += [figure.title, figure.says]
    return "\n".join(parts)


class TestWriting:
    def test_the_same_result_is_the_same_file(self, evaluation, tmp_path):
        for name in ("a.html", "b.html"):
            write_html(evaluation, tmp_path / name)
        first = (tmp_path / "a.html").read_bytes()
        assert first == (tmp_path / "b.html").read_bytes()
        assert first.startswith(b"<!doctype html>")

    def test_an_earlier_page_is_replaced_and_other_files_are_not(self, evaluation, tmp_path):
        place = tmp_path / "report.html"
        place.write_bytes(b"")
        write_html(comparison(), place)
        write_html(evaluation, place)
        assert "How good is the router?" in place.read_text()
        data = tmp_path / "history.jsonl"
        data.write_text("{}\n")
        with pytest.raises(DataFileError, match="is there already, and is not a report page"):
            write_html(evaluation, data)
        assert data.read_text() == "{}\n"

    def test_what_fails_leaves_what_was_there(self, evaluation, tmp_path, monkeypatch):
        place = tmp_path / "report.html"
        write_html(comparison(), place)
        before = place.read_bytes()

        def full(_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(DataFileError, match="No space left"):
            write_html(evaluation, place)
        assert place.read_bytes() == before
        assert [each.name for each in tmp_path.iterdir()] == ["report.html"]

    def test_a_place_that_cannot_be_written(self, tmp_path):
        with pytest.raises(DataFileError, match="its folder does not exist"):
            check_html(tmp_path / "nowhere" / "report.html")
        with pytest.raises(DataFileError, match="is a directory"):
            check_html(tmp_path)
        check_html(tmp_path / "report.html")
        assert list(tmp_path.iterdir()) == []

    def test_what_has_no_page(self, tmp_path):
        with pytest.raises(InputError, match=r"no page of a dict \(give one of .*Evaluation"):
            write_html({}, tmp_path / "report.html")
        assert all(isinstance(kind, type) for kind in PAGES)

    @pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
    def test_without_the_extra(self, package, tmp_path, monkeypatch):
        real = builtins.__import__

        def without(name, *others, **more):
            if name.split(".")[0] == package:
                raise ImportError(name)
            return real(name, *others, **more)

        monkeypatch.setattr(builtins, "__import__", without)
        with pytest.raises(MissingExtraError, match=rf"needs {package} .*'cnp-router\[report\]'"):
            check_html(tmp_path / "report.html")


class TestEvaluationPage:
    def test_the_facts_are_those_of_the_evaluation(self, evaluation):
        facts = evaluation_page(evaluation).facts
        assert facts[0] == ("requests", "40")
        values = [value for _, value in facts]
        assert values[1] == f"{evaluation.ranking['recall@5']:.3f}"[1:]
        assert len(facts) == 8
        error = 1.96 * evaluation.standard_errors["ranking"]["recall@5"]
        assert facts[1][0] == f"recall of the first 5 APIs, ± {share(error)}"
        assert facts[-1][0] == "requests below the threshold of 0.6"

    def test_it_says_what_it_is_about(self, evaluation):
        page = evaluation_page(evaluation, model="m<odel", histories=["a.jsonl", "b.jsonl"])
        assert page.lead[-1] == (
            "Router that learned from 200 past requests over 149 APIs (m<odel); requests from "
            "a.jsonl, b.jsonl; threshold of the confidence 0.6; target recall 0.9."
        )
        assert page.lead[0].startswith("Warning: there are fewer than 100 requests")
        days = (date(2012, 2, 29), date(2013, 1, 1))
        many = evaluation_page(replace(evaluation, requests=100, days=days, n_mashups=None))
        assert many.lead[-1].startswith("Router over 149 APIs; dated 2012-02-29 to 2013-01-01; ")
        assert not any("Warning" in paragraph for paragraph in many.lead)

    @pytest.mark.parametrize(
        ("recall", "said"),
        [(1.0, "adapting pays."), (0.0, "does not pay."), (None, "makes no difference.")],
    )
    def test_whether_adapting_pays(self, evaluation, recall, said):
        points = tuple(RecallPoint(n, 0.5, 0.5) for n in (1.0, 149.0))
        recipients = {**evaluation.recipients, "recall": 0.5 if recall is None else recall}
        curves = replace(evaluation.curves, depths=points)
        page = evaluation_page(replace(evaluation, recipients=recipients, curves=curves))
        figure = page.sections[0].figures[0]
        assert "the same number for every request would find .500" in figure.says
        assert figure.says.endswith(said)

    def test_of_few_apis_no_depth_is_all_of_them(self):
        apis = Catalog([Api(name, name) for name in "abcdef"])
        past = History([Mashup("1", "one", ("a",)), Mashup("2", "two", ("b",))])
        page = evaluation_page(evaluate(PopularityRouter(apis, past), past))
        assert not any("first 20" in label for label, _ in page.facts)
        assert any("first 5" in label for label, _ in page.facts)
        names = [row[1] for table in page.sections[-1].tables for row in table.rows]
        assert "recall@5" in names
        assert "recall@20" not in names

    def test_no_line_goes_through_what_few_say(self, evaluation):
        bins = (
            ReliabilityBin(0.0, 0.1, 300, 0.05, 0.1),
            ReliabilityBin(0.4, 0.5, 3, 0.45, 0.0),
            ReliabilityBin(0.9, 1.0, 40, 0.95, 1.0),
        )
        curves = replace(evaluation.curves, reliability=bins)
        figure = evaluation_page(replace(evaluation, curves=curves)).sections[1].figures[1]
        assert [row[3] for row in figure.table.rows] == ["30 of 300", "none of 3", "all of 40"]
        assert "rings stand for fewer than 20" in figure.says
        # The line and the dots of the two that are many; the ring of the one that is few.
        (line,) = re.findall(r'd="([^"]*)"[^>]*stroke: var\(--s1\); stroke-width: 2', figure.svg)
        assert len(re.findall("[ML]", line)) == 2
        assert "fill: var(--card); stroke: var(--s1)" in figure.svg

    def test_a_threshold_can_be_chosen(self, evaluation):
        points = (
            ConfidencePoint(0.0, 40, 1.0, 0.5),
            ConfidencePoint(0.6, 30, 0.75, 0.8),
            ConfidencePoint(0.9, 5, 0.125, 1.0),
            ConfidencePoint(0.95, 0, 0.0, None),
        )
        curves = replace(evaluation.curves, confidences=points)
        page = evaluation_page(replace(evaluation, curves=curves))
        figure = page.sections[1].figures[0]
        assert "At the threshold in use, 0.6, 75% of the requests are sure, and of" in figure.says
        assert "these .800 have recipients that hold all" in figure.says
        assert figure.table.rows == (
            ("0", "40", "1.000", ".500"),
            ("0.6 (in use)", "30", ".750", ".800"),
            ("0.9", "5", ".125", "1.000"),
            ("0.95", "0", ".000", "-"),
        )
        svg = evaluation_page(replace(evaluation, threshold=0.95, curves=curves)).sections[1]
        assert "No request reaches the threshold in use, 0.95" in svg.figures[0].says

    def test_it_says_how_to_get_a_learning_curve(self, evaluation):
        page = evaluation_page(evaluation)
        assert "--learning-curve" in text_of(page)
        assert [len(section.figures) for section in page.sections] == [2, 2, 1, 0, 0]

    def test_the_learning_curve(self, evaluation, sample):
        router = fit_router(sample.catalog, sample.history[:30])
        curve = learning_curve(router, sample.history[660:], sizes=[0, 10])
        section = evaluation_page(evaluation, curve=curve).sections[3]
        assert [figure.title for figure in section.figures] == [
            "What more history is worth",
            "Keeping the target recall",
        ]
        for figure in section.figures:
            assert [row[0] for row in figure.table.rows] == ["0", "10", "30"]
        assert {row[3] for row in section.figures[1].table.rows} == {".900"}

    def test_each_figure_says_something_and_has_a_table(self, evaluation):
        figures = [f for s in evaluation_page(evaluation).sections for f in s.figures]
        assert all(len(figure.says) > 40 and figure.table.rows for figure in figures)

    def test_one_request_of_one_api(self, sample):
        router = PopularityRouter(sample.catalog, sample.history[:200])
        alone = next(m for m in sample.history if len(m.apis) == 1)
        rendered(evaluation_page(evaluate(router, History([alone]))))


class TestWithoutColour:
    def test_lines_are_told_apart(self, evaluation, sample):
        router = fit_router(sample.catalog, sample.history[:30])
        curve = learning_curve(router, sample.history[660:], sizes=[0, 10])
        figures = {
            figure.title: figure.svg
            for section in evaluation_page(evaluation, curve=curve).sections
            for figure in section.figures
        }
        for title, n in {
            "Recall against recipients": 2,
            "Recall by depth of the ranking": 1,
            "What more history is worth": 2,
        }.items():
            dashes = set(re.findall(r"stroke-dasharray: ([\d. ,]+)", figures[title]))
            assert len(dashes) == n, title

    def test_stacked_bars_are_told_apart(self):
        svg = comparison_page(comparison()).sections[1].figures[0].svg
        assert svg.count("<pattern") == 1


class TestComparisonPage:
    def test_tokens_by_stage_and_role(self):
        section = comparison_page(comparison()).sections[1]
        by_stage, as_share, by_role = (figure.table for figure in section.figures)
        assert by_stage.columns == ("method", "category mapping", "bidding", "total")
        assert by_stage.rows[0] == ("manager-led, broadcast", "1,000", "9,000", "10,000")
        assert as_share.rows[1] == ("manager-led, routed", ".100", ".900", "1,000")
        assert by_role.columns == ("method", "manager", "contractor", "total")

    def test_what_routing_saves_is_said(self):
        page = comparison_page(comparison())
        assert ("tokens of a broadcast over those of routing: manager-led", "10.0x") in page.facts
        assert "from 10.0 (manager-led) to 10.0" in text_of(page)

    def test_several_organisations_are_told_apart(self):
        page = comparison_page(comparison(organisations=("api", "category")))
        assert [s.title for s in page.sections[-2:]] == [
            "Contractors by api: 149",
            "Contractors by category: 149",
        ]
        assert page.sections[1].figures[0].table.rows[0][0] == "manager-led, broadcast, by api"

    def test_trouble_comes_first_and_is_escaped(self):
        page = comparison_page(comparison(error=HOSTILE), problem=HOSTILE)
        first = page.sections[0]
        assert first.title == "What went wrong"
        assert first.text[0].startswith("This comparison ended early: ")
        assert any("1 of 2 rounds failed (50.0%)" in text for text in first.text)
        html = rendered(page)
        assert "<script" not in html
        assert "<img" not in html

    def test_hostile_names_of_protocols(self):
        html = rendered(comparison_page(comparison(protocols=(HOSTILE, "plain"))))
        assert "<script" not in html
        assert "<img" not in html

    def test_nothing_but_failed_rounds(self):
        from cnp_router.evaluation.comparison import ComparisonRow, Method, RoundResult

        method = Method("manager-led", "routed", "api")
        one = comparison()
        failed = ComparisonRow.of(method, [RoundResult(method, "m", None, "no answer")])
        html = rendered(comparison_page(type(one)(**{**vars(one), "rows": (failed,)})))
        assert "no answer" in html
